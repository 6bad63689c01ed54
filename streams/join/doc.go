// Package join looks records of a stream up in a table.
//
// # Path
//
//	task core: record of the table's topic -> store of the table        by arrival, emits nothing
//	operator.Process: record of the stream -> Get(key) -> Options.Join  emits at most one record
//
// # Invariants
//
//   - A table holds the latest value of every key by offset, whatever the timestamps say; a
//     tombstone removes it. Only records of the stream cause output, at their own time.
//   - A record without a value leaves the stream. A record without a key matches nothing.
package join
