// Package gate holds records back: those that were seen before, and those above a rate.
//
// # Path
//
//	dedupe.Process   -> key -> rows of the last spans of stream time -> the first one passes
//	throttle.Process -> key -> count in the current span of stream time -> the first n pass
//
// # Invariants
//
//   - Both go by stream time alone, so that a replay lets the same records through.
//   - A key is remembered from the stream time at which it was first seen, and a record of it is a
//     duplicate iff S <= that + within. Duplicates do not prolong it.
//   - Spans of a throttle are aligned to 1970-01-01 UTC.
//
// # Files
//
// Rows of the store <id>, in buckets of stream time that are dropped whole:
//
//	dedupe     key -> stream time i64    a bucket per `within`
//	throttle   key -> count uvarint      a bucket per span
package gate
