// Package lang reads pipeline YAML into a syntax tree in which every field keeps file:line:col.
//
// # Path
//
// Load parses the bytes with go.yaml.in/yaml/v4, copies the nodes into a tree of its own under
// size, depth and alias limits (node.go), and walks that tree along the Go structs of ast.go
// (decode.go). The struct fields and their tags are the one table of the language: the walker,
// the formatter (format.go) and the JSON Schema (jsonschema.go) all read it. References like
// ${env:X} are resolved on scalar nodes, after parsing, so a value can never change structure
// (reference.go).
//
// # Invariants
//
// Load never fails half way: it returns a tree and all findings; a field that could not be read
// is left unset. A key that is known but not built yet gives an E4xx finding. No finding and no
// String method shows the value of a secret.
//
// # Files
//
// load.go file.go (entry, files a pipeline names), ast.go ast_*.go fold.go keys.go (grammar),
// decode.go (the walker), scalar.go expr.go container.go type.go tree.go (field types), node.go
// (YAML to nodes), syntax.go (text that is no YAML), position.go (source text and columns),
// finding.go codes.go (what can be wrong), reference.go, use.go (templates), format.go,
// jsonschema.go.
package lang
