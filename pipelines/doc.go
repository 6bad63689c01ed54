// Package pipelines is the language in which a user says what happens to a stream: YAML in, a
// checked physical plan out, and the machinery that runs, deploys and replays such plans.
//
// # Path
//
// A file becomes a plan in four steps, each one package: lang reads YAML into a syntax tree in
// which every field remembers its file, line and column; check finds everything that is wrong
// with the tree, compiling each expression on the way; plan turns a tree without errors into
// sources, nodes, topics and stores; runner and deploy run it. expression holds the compiled
// programs and the record they look at, and is all of the language that is left on the hot path.
//
// # Invariants
//
// What lint accepts is what runs: both call check.Check and then plan.Build, there is no second
// validator. A key that the grammar knows but the product cannot do yet is an error, never
// ignored. A secret is never part of a message, a fingerprint or a printed plan.
//
// # Files
//
// DESIGN.md tells the journey of a pipeline file and why the language is shaped as it is.
package pipelines
