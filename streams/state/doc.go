// Package state keeps the rows of one task: an uncommitted overlay in memory, committed rows not
// yet on disk, and a bbolt file that holds a committed prefix of the task's changelog.
//
// # Path
//
//	operator -> Store.Put                    L0: visible to the task, in no file, in no topic
//	task     -> DB.Changes                   the last value of each row of L0, as changelog rows
//	            changelog acknowledged
//	task     -> DB.Commit(now, Meta)         L0 becomes L1 (committed, dirty)
//	            DB.Flush, when due           one bbolt transaction: L1 rows and Meta
//	restart  -> Open, then Bulk.Add + Write (or Apply + Commit) rows of the changelog from Meta.Next
//
// One table per bucket holds the three memory tiers: a row knows its committed value (L1 or a clean
// cache of the file) and its uncommitted one (L0). Commit swaps the two buffers, so that a counter
// that is updated a thousand times between two flushes costs no allocation and one page write. Rows
// have no pointers, their bytes lie in pieces of their bucket (rows.go). Those of a dropped window
// are gone with the commit of the drop, and at once if no commit knows of them.
//
// # Invariants
//
//   - The file never holds an uncommitted row: only Flush writes it, and only when L0 is empty.
//   - Rows and Meta change in one bbolt transaction, so the file always equals the changelog
//     prefix [0, Meta.Next) with each key at its last value.
//   - A file of another task, topology, changelog or a newer format is refused, never wiped.
//   - A file that was open when the machine lost power is not trusted: bbolt runs without fsync
//     (the changelog is the durability), so its pages may be torn. It is put aside and the task
//     restores from the changelog. A killed process is no such case: the page cache survives it.
//   - Each row has a checksum, and so has what the file says of itself. What does not fit, a page
//     bbolt panics over and a file that is too short are ErrDamaged (damage.go): nothing that came
//     from such a file is committed, it is put aside and the task restores from the changelog.
//     Pages that lead to others have no checksum, so a flipped bit there may hide rows.
//
// # Goroutines
//
// A DB and its stores belong to the goroutine of their task; Flush runs there too. Others look at
// the file through a Reader: file.views keeps it open meanwhile. One walks over the file now and
// then to tell what each store takes (sizes.go); Close waits for it.
//
// # Files
//
//	<path>          bbolt: bucket "meta", "k/<store>" ('r' key -> value sum),
//	                "w/<store>" (start as 8 ordered bytes -> bucket of 'r' key -> value sum);
//	                sum is the CRC-32C (4 bytes, big endian) of changelog key and value
//	<path>.lock     exclusive lock, holds the owner's process id
//	<path>.boot     boot id of the machine and "open" or "clean"
//	<path>.torn     a file put aside after power loss or damage, or of an older format
//	<path>.copy-…   the file at one commit, while somebody exports it
//
// Changelog keys (all integers big endian; start has its sign bit flipped, so that it sorts):
//
//	'k' | uvarint len(store) | store | key
//	'w' | uvarint len(store) | store | start int64 | key
//	'm'                                              the meta record, written by the task
package state
