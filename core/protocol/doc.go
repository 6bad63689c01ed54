// Package protocol reads and writes Kafka's wire frames: headers, the two hot request bodies and
// their answers, and the bounded primitives they are made of.
//
// # Path
//
// A connection of core/server reads a frame, [ParseHeader] splits it into header and body. Produce
// and Fetch bodies are decoded here by hand into reusable structs ([ProduceRequest],
// [FetchRequest]); every other body is decoded by kmsg through [DecodeRequest].
//
// # Frame
//
//	request  = size i32 | api key i16 | version i16 | correlation id i32 | client id (nullable i16
//	           string, in every header version) | tag buffer when the version is flexible | body
//	response = size i32 | correlation id i32 | tag buffer when flexible, except ApiVersions | body
//
// # Invariants
//
// No function allocates by a length it has read before it has compared that length with the bytes
// that are left: for an array, n * (smallest element) <= remaining. No input panics. Slices in a
// decoded request alias the frame; they must not outlive it.
package protocol
