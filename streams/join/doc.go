// Package join joins streams with tables and with each other.
//
// # Path
//
//	task core: record of the table's topic -> store of the table        by arrival, emits nothing
//	lookup.Process: record of the stream -> Get(key) -> Options.Join    emits at most one record
//
//	streams.Process: record of either side (Record.Input), for each:
//	    unmatched records due at its stream time come out               pending (stream_pending.go)
//	    records of the other side in its window and open -> Join        buffer (stream_buffer.go)
//	    it is kept; if it has matched nothing and may come out alone, also in pending
//
//	streamTable.Process: upsert of the table -> rows, or versions with a history
//	    record of the stream, at once or when its grace is over -> row at its time -> Join
//
//	tables.Process: upsert of either side -> rows; result before and after -> one change
//	changes.Process: upsert -> rows -> the record, with what it takes the place of in Old
//
//	foreignLeft     left row  -> subscription by foreign key, and the row itself by its key
//	foreignMatch    subscription, or right row -> answer to every left key that wants it
//	foreignResult   left row, answer -> change, unless the answer is for a row that was replaced
//
// # Invariants
//
//   - A table holds the latest value of every key by offset, whatever the timestamps say; a
//     tombstone removes it. Only records of the stream cause output, at their own time.
//   - A record without a value leaves the stream. A record without a key matches nothing.
//   - Streams l and r match iff r.ts is in [l.ts - before, l.ts + after] and keys are equal. A left
//     record is closed iff S > ts + after + grace, a right one iff S > ts + before + grace. What is
//     closed is joined with nothing, though its segment may still be there; what comes closed is
//     late. So a record that came out alone is never joined afterwards.
//   - Unmatched records come out before the results of the record that moved time, by (due time,
//     timestamp, left before right, key, arrival). Due time comes first because the task may move
//     time in one step or in several.
//   - Tables of JoinTable, JoinTables and JoinForeign take part in the order of events, so what
//     comes out is a function of the inputs. With a history a record meets the row that held at its
//     timestamp, and what is older than S - history is late; a bucket of versions goes when nobody
//     can ask for it, what is asked is decided by S alone.
//   - A change of a table is one record: the new row, with the old one in Old. There is a
//     tombstone only where there was a row.
//   - Results by foreign key come out on real change only; the answer for a left row that was
//     replaced meanwhile is known by the row's hash and dropped.
//   - A record looks at the records of its key in at most four slots by exact key, and at the
//     first unmatched record in memory: a hot key, many unmatched records or a long grace cost
//     a record nothing.
//
// # Files
//
// Rows of streams, in the windowed stores <id>-buffer and <id>-pending. esc is the key with 0x00 as
// 0x00ff and 0x0000 as its end, time is 8 bytes big endian with the sign bit flipped. A slot spans
// (before + after) / 2, at least 1 ms, and a bucket (before + after + grace) / 2, in whole slots.
//
//	buffer, bucket per ts:   esc(key) slot time                  -> counts: left, right uvarint
//	                         esc(key) slot time | side 1 | n u32 -> record
//	pending, per due time:   due time | ts time | side 1 | esc(key) | n u32 -> nothing
//
// Tables, versions and foreign keys; time until is when a version ended:
//
//	<id>-rows, -left, -right   key                              -> record (bit 2: deletion kept)
//	<id>-history, per until    esc(key) | complement of ts time -> until time | record
//	<id>-waiting, per due time due time | event time | n u32 | key -> record
//	<id>-keys                  left key                         -> foreign key
//	<id>-subscriptions         u32 length, foreign key | left key -> hash u64 of the left row
//	<id>-results               left key -> bits | left row | row and right row of the result
//
// A record:
//
//	bits 1          bit 0 it was matched, bit 1 it has a window, bit 3 it says where it comes from
//	ts              varint
//	origin          topic (uvarint length), partition uvarint, offset uvarint, if it says so
//	window          17 bytes (operator.PutWindow), if it has one
//	headers         uvarint count, then name (uvarint length) and value (varint length, -1 null)
//	value           the rest
package join
