// Package ranges reads the positions people write for --from and --to and turns them into offsets.
//
// The grammar, the same in consume, group and replay:
//
//	start               the first record kept
//	end                 behind the last record, as it was when the command began
//	42                  the offset 42, in every partition
//	+10                 10 after the start (--from), or 10 after --from (--to)
//	-10                 10 before the end
//	@2026-02-14T10:00Z  the first record at or after that time; an offset or Z is required
//	@-1h                the first record of the last hour
//	committed(GROUP)    where the group stands; the start where it has committed nothing
//
// # Invariants
//
// A [Range] is half-open: [from, to). `end` is frozen when it is resolved, so a range always ends.
package ranges
