// Package aggregate folds the records of a key into results, in windows or for ever.
//
// # Path
//
//	Process -> for every record: do what is due at its stream time (operator_close.go, closing.go)
//	        -> the open windows, the session or the instant it belongs to
//	        -> accumulators (field.go, field_more.go) -> store
//	        -> one result per change (OnUpdate), per window (OnClose) or per span of time (Every)
//
// Tumbling and hopping windows, and none, are operator.go; hopping windows on close may be put
// together from panes (panes.go); sessions.go, sliding.go and counted.go keep one row per key
// (spans.go). folds.go is what they share.
//
// # Invariants
//
//   - A record is late iff its own window is closed; nothing is ever added to a closed window, and
//     what is closed is gone from the store, after Lateness if late records change results.
//   - Results of windows come out ordered by (end, start, key bytes).
//   - A record is added to all its open windows or, when one of them fails, to none.
//   - Integer sums are exact or fail. avg is the quotient of the exact sum and the count, rounded
//     once. Sketches keep the same bytes for any order of the same values.
//   - Sessions that a record connects become one; those that were told are taken back first.
//   - Over the changes of a table an old row is taken out before the new one is put in, in one
//     change and one result, which has the one before in Old. A row that fails is none. What
//     cannot be taken out is refused (Options.Validate).
//
// # Files
//
// Rows of the store <id>, of windows or panes by start (one bucket each) or of none; key is the
// record's:
//
//	8 bytes big endian   largest timestamp added
//	per field            count     uvarint
//	                     sum       bits | varint int part | if bit 1: float sum, compensation (8+8)
//	                     avg       as sum, then uvarint count
//	                     min, max  value: tag (0 none 1 int 2 float 3 string 4 JSON), then
//	                               varint / 8 bytes / len+bytes / len+bytes
//	                     first, last, collect, topk
//	                               uvarint number, then each: varint timestamp, varint place of
//	                               its record among all events, value, topk: value shown
//	                     distinct  uvarint count; in sessions and sliding windows the values
//	                     approx_distinct, quantile, stddev, reduce
//	                               see hll.go, quantile.go, moments.go, field_more.go
//
// Rows of sessions, sliding and count windows are described in spans.go, and the stores beside
// <id> where they are used: <id>:values (members.go) one row per value of a group, <id>:changed
// (changes.go) what changed since it was emitted, <id>:due (closing.go, expiry.go) keys by the
// span of time in which something is due for them.
package aggregate
