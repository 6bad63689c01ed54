// Package compact keeps the last record of each key of a log and removes the others, as Kafka's log
// cleaner does.
//
// # Path
//
// Cleaner.Run (cleaner.go) picks the dirtiest log that is due (plan.go). clean (clean.go) reads its
// dirty segments into an OffsetMap (offset_map.go), then rewrites all segments up to the end of
// what the map covers, neighbours together if they fit into one. filter (filter.go) decides batch
// by batch, with transactions (transactions.go) telling aborted data and outlived markers.
// record.Batch.AppendRetained makes the smaller batch.
//
// This package decides what stays. What a segment is, how it is read while the log lives on, and
// how one takes the place of others though the power may fail at each step, is storage's: it gives
// a storage.Cleaning. So storage knows nothing of keys, and core joins both where it opens the
// directory.
//
// # Invariants
//
// Offsets never change; what is removed leaves holes. A record goes only if
//
//   - a later one of its key, below the last stable offset, stays; or
//   - its transaction was aborted; or
//   - it is a tombstone, and its batch's delete horizon has passed. The horizon is set by the first
//     pass that keeps the tombstone: now + delete.retention.ms, in the batch's base timestamp, bit
//     6 of its attributes (KIP-534); or
//   - it has no key.
//
// A transaction's marker goes after its data, by a horizon of its own. Two batches stay though all
// their records go: the last one of each live producer, for its sequence, and the last one of each
// run of segments that becomes one. Kafka keeps only that of the last run; see rewriteBatch. Such a
// batch has a count of 0, and readers pass it by its lastOffsetDelta.
//
// Nothing at or above the last stable offset is touched, nor the active segment.
//
// # Goroutines
//
// Cleaner.Run starts log.cleaner.threads workers and joins them when its context ends; Configure
// has it stop them and start others. New, Configure and Stats start none.
//
// # Locks
//
// Cleaner.mu guards which logs are worked on; it is taken before those of storage, and never held
// while a log is compacted, only while one is chosen. throttle.mu guards one time stamp.
package compact
