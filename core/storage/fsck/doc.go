// Package fsck looks at a data directory that no process uses and says what is wrong with it. It
// reads and never writes.
//
// # Path
//
// Check reads the files of the directory itself (directory.go, text.go), then each partition's
// (partition.go): its log batch by batch (segment.go), which at the same time is held against the
// indexes (index.go), the leader epochs and the producers' snapshots (producers.go).
//
// # Invariants
//
//	files are opened for reading only
//	memory is bounded by the largest intact batch, the indexes of one segment and the producers of
//	    one log; no length in a file is believed before its checksum
//	nothing here is shared with the code that writes the files: a fault of both would not be seen
//
// What may be missing after a crash, since the next start brings it back, is a note and no damage:
// the end of a log above its recovery point, and indexes of such segments.
//
// Not seen: a change that leaves a file as valid as before, such as the removal of an index entry
// or a cluster id that is another valid one. Holes in the offsets are damage unless compaction may
// have made them: below the cleaner's checkpoint and, since that is written when a compaction ends
// and a crash may come before, in any sealed segment of a log that has a line in it.
package fsck
