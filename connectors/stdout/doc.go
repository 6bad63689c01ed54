// Package stdout prints records on the standard output of the host, one JSON value a line.
//
// # Path
//
// The sink encodes a batch and writes it to Ctx.Output, which the host prints before it sees the
// acknowledgement. The plugin's own standard output is not involved: that goes to the log.
//
// # Invariants
//
// A record is printed whole or not at all, but after a crash a batch may be printed twice.
//
// # Files
//
// config.go, sink.go.
package stdout
