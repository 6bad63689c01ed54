// Package check finds everything that is wrong with a pipeline, and compiles what is right.
//
// # Path
//
// Check takes the tree lang.Load made, names and orders the steps (graph.go), then goes through
// sources, tables, steps and sinks once, in the order records flow. Each has a scope that says
// what its expressions see; each operator makes the scope of its output (step.go, group.go).
// Expressions are compiled on the way, and what their compiler says is mapped back into the file
// (expr.go). Settings of connectors and plugins are validated against the JSON Schema that a
// Catalog knows (config.go, schema.go). The Result is all that plan needs.
//
// # Invariants
//
// Check reports all findings, not the first; a mistake in one place hides no mistake elsewhere
// and makes none up: what depends on something broken is left unchecked. A Result may be planned
// only if no finding is an error.
//
// # Files
//
// check.go result.go (entry and outcome), graph.go, source.go, step.go, aggregate.go group.go,
// join.go table.go sink.go, policy.go (error policies), expr.go, config.go schema.go catalog.go,
// code.go codes.go (finding codes and their list), render.go (how findings look).
package check
