// Package replay runs a pipeline again over a fixed range of its inputs, beside the live one, and
// proves that both give the same bytes.
//
// # Path
//
// The shadow is deployed like any pipeline (package deploy) under its own name, with explicit
// offsets per input partition (deploy.Replay), so that the same specification always means the
// same run. Its group, state, internal topics and outputs carry its name, so it never touches the
// live one. [Verify] reads the live and the shadow outputs and compares them record by record.
//
// # What equal means
//
// Per output partition, the shadow's records are one unbroken run of the live ones: the same keys,
// values, timestamps and headers in the same order. Offsets, control records, records that only
// carry watermarks and the ms-lane header, which names the writer, are left out. A replay that
// covers all input must give all output: then nothing may come before or behind the run either.
//
// Windows that began before the range cannot be rebuilt from it. The shadow leaves them out, and
// Verify tells how many live records lie before the range.
//
// # Files
//
//	outputs.go  fingerprints of a topic's records
//	verify.go   the comparison
package replay
