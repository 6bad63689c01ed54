// Package task runs sub-topologies: it feeds the records of input partitions to a deterministic
// Core and makes outputs, state and input positions permanent together.
//
// # Path
//
//	Worker.Run      make topics, open every task (at most 4 at once), run tasks and readers
//	reader.run      Consumer.Poll -> inbox of each task that reads the partition
//	loop.turn       inbox -> Core.Add -> Core.Run (a batch) -> Core.TakeOutputs -> writer -> Send
//	loop.commit     every 200 ms while busy, or by bytes: see below
//	loop.open       state file -> changelog up to the last commit record -> Core -> outputs
//	SequencedProducer   the same guarantee for a source that can be read again from a position
//
// # A commit
//
// The changelog partition of a task is its journal. A commit is a run of changed rows (last value
// of each key) ended by one commit record: input positions and the rest of the Core's snapshot, and
// for each output partition the log position and the sequence up to which it is known.
//
//	1  send outputs and changed rows        wait until all are acknowledged
//	2  send the commit record               wait until it is acknowledged: this is the commit
//	3  the state file may have the rows     (state: L0 -> L1 -> one bbolt transaction)
//	4  show the offsets in the group        for tools only; nothing is decided by them
//
// # Why nothing is lost or doubled
//
// Let C be the last commit record in the changelog. A restart goes to C, wherever the crash was:
//
// State. Rows are sent before the record that ends them and acknowledged before it is sent, so the
// rows up to C are complete. Rows after C belong to a commit that did not happen; restore does not
// apply them. They must not be left there either, since the next commit record would make them
// count: begin() sends the committed value of each such key (or a tombstone) and then a copy of C,
// before anything is processed. The copy is the new C; if begin() dies half way, the next one does
// it again. The rows are absolute values, so applying the prefix once more, from wherever the state
// file ends, changes nothing. The file holds only rows up to some earlier commit record, with its
// position, in one transaction; so it is a prefix of the same changelog. The cleaner keeps away
// from the last hour of the log (min.compaction.lag.ms), so an uncommitted row cannot displace a
// committed one before it is taken back; only a task that is down for longer than that hour, with
// its state file lost and its changelog's last segment rolled meanwhile, could miss rows.
//
// Inputs. Positions are in C with the state they led to, so each record is processed once as far
// as the state can tell.
//
// Outputs. The Core is deterministic: started again from C it makes the same records with the same
// sequence numbers. Everything that was written after C is behind the log positions in C, because
// all earlier writes were acknowledged before C. So begin() reads the output partitions from there
// to their end, notes the highest sequence of this writer in each, and the loop drops records at or
// below it. Per partition the producer appends in order, without gaps (an append that fails for
// good ends the task, and nothing is sent after it), so what the log has of a partition is exactly
// the beginning of what is made again. An output partition that C does not name has none of our
// records: before the first record goes to one, C is written again with its position (learn).
// Watermarks are not numbered and may be repeated: they only say again what is true.
//
// What this cannot do without transactions: readers see outputs before the commit (they are never
// taken back, so this is only early); and a second worker for the same tasks is kept out by the
// lock of the state file, which reaches as far as that file does. A request of a killed process
// that the broker still has in its socket buffer must be handled before the restarted worker looks.
//
// # Bounded runs
//
// A stream input ends at Options.Until, at its end at the start (Options.Bounded), or where
// EndInput says. A task that was read to the end and has processed everything commits and stops;
// the end travels through repartition topics in control records, so tasks downstream stop after it.
// An end is that of one run: the next one may find more, and is told its own end.
//
// # Invariants
//
//   - committed position <= processed <= handed to Core (input.at) <= end of log.
//   - The last commit record is never older than what the state file says.
//   - A row is sent to the changelog only inside commit or begin.
//
// # Goroutines
//
// Worker.Run owns all: one per task (loop.run), one per sub-topology (reader.run, with its
// consumer), one that shows offsets, one that deletes read records of repartition topics
// (purge.go). Tasks are opened by some at a time. They end before Run returns. A task's Core, state
// and writer belong to its goroutine.
//
// # Locks
//
// Worker.mu, inbox.mu, reader.mu, taskStatus.mu; none is taken while another is held, except that
// reader.mu is held over Consumer.Pause and Resume, which do not block.
//
// # Files
//
// <StateDir>/<app>/<sub>-<partition>.db and its companions, see package state.
package task
