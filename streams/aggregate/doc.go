// Package aggregate counts, sums, averages and finds extremes per key, in windows or for ever.
//
// # Path
//
//	operator.Process -> for every record: close what is due at its stream time (operator_close.go)
//	                 -> the open windows of its timestamp -> accumulators (field.go) -> store
//	                 -> one result per change (OnUpdate) or per window (OnClose)
//
// # Invariants
//
//   - A window is closed iff S >= end + grace. A record is late iff a window it falls into is
//     closed; nothing is ever added to a closed window, and a closed window is gone from the store.
//   - Closed windows come out ordered by (end, start, key bytes).
//   - A record is added to all its open windows or, when one of them fails, to none.
//   - Integer sums are exact or fail. avg is the quotient of the exact sum and the count, rounded
//     once.
//
// # Files
//
// Rows of the store <id> (windows: one bucket per start), key is the record's key:
//
//	8 bytes big endian   largest timestamp added
//	per field            count  uvarint
//	                     sum    bits | varint int part | if bit 1: float sum, compensation (8+8)
//	                     avg    as sum, then uvarint count
//	                     min    tag (0 none 1 int 2 float 3 string) | varint / 8 bytes / len+bytes
//	                     max    as min
package aggregate
