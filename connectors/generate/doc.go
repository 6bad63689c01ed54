// Package generate makes up records: for trying pipelines, for tests and for load.
//
// # Invariants
//
// Record n is a pure function of the configuration and n: the same seed gives the same bytes,
// from any position, on any machine. The wall clock decides only when a record comes, never
// what it is.
//
// # Files
//
// config.go, source.go, field.go.
package generate
