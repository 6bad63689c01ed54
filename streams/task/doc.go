// Package task runs sub-topologies: it feeds the records of input partitions to a deterministic
// Core and makes outputs, state and input positions permanent together.
//
// # Path
//
//	Worker.Run      make topics, tend every task (at most 4 restore at once), one reader per sub
//	tend            open -> run -> close, and again when the task is lost
//	reader.run      Consumer.Poll -> inbox of each task that reads the partition
//	loop.turn       inbox -> Core.Add -> Core.Run (a batch) -> Core.TakeOutputs -> sender -> Send
//	loop.commit     every 200 ms while busy, or by bytes: see below
//	loop.open       state file -> take over the transactional id -> changelog -> Core -> inputs
//	SequencedProducer   exactly once for a source that can be read again from a position
//
// # A commit
//
// The changelog partition of a task is its journal. A commit is one transaction of
//
//	outputs | changed rows (last value of each key) | one commit record | group offsets of inputs
//
// and only when the log has confirmed it the state file may have the rows (state: L0 -> L1 -> one
// bbolt transaction). The commit record holds input positions and the rest of the Core's snapshot.
// Input positions are in the group too, for tools; the record is what counts.
//
// # Why nothing is lost or doubled
//
// The transactional id of a task is its name. Opening it (loop.open) raises its epoch: whoever ran
// the task before can commit nothing any more, and its open transaction is ended when the answer
// comes. So the end of the changelog is final then, and the last commit record C in it is the last
// commit, whether its sender heard of it or not: an unknown outcome is never guessed. State, inputs
// and outputs of C were one transaction; nothing after C counts, for nobody.
//
// State. The file holds the rows up to some commit record, with its position, in one transaction:
// a prefix of the changelog. Rows are absolute values, so the rest of it is applied from there.
//
// Inputs. Positions are in C with the state they led to.
//
// Outputs. Readers of committed records see those up to C. What is behind C is made again.
//
// Lost tasks. Every error that says that the transaction or the right to it is gone
// (client.ErrLost), or that the log is away (client.ErrUnavailable), means: close without flushing,
// wait a little, open again. Only other errors end the pipeline.
//
// Why an id per task, and not one per worker? Then the epoch alone keeps a former owner out, to the
// task; a worker's id would need the group's generation checked in every commit, and one slow task
// would hold up the outputs of all others.
//
// # Several workers
//
// Without Options.Share a worker runs all tasks. With it, workers are members of the group; the
// leader gives out tasks (assign.go, a pure function of what the members claim, sticky and even).
// A task moves in two steps: the next assignment leaves it out, its owner drains it, commits and
// joins again, and only then somebody gets it. A task with state moves when its next owner has a
// warm copy: a standby (standby.go) follows the changelog into a state file of its own, commit by
// commit, and the task becomes active by opening that file. A static instance that comes back
// within its session gets what it had. Should two workers run one task for a moment (one was
// suspended, and its session ended), the epoch decides; none of this is needed for exactness.
//
// # Bounded runs
//
// A stream input ends at Options.Until, at its end at the start (Options.Bounded), or where
// EndInput says. A task that was read to the end and has processed everything commits and stops;
// the end travels through repartition topics in control records, so tasks downstream stop after it;
// one that is opened again has read that, so it is told again when all writers are done
// (endRepartitions). Workers of a group stop when the tasks of all are done. An end is that of one
// run: the next one may find more, and is told its own end. A task is done when its results can be
// read: a transaction is decided before its markers are written (loop.finish).
//
// # Invariants
//
//   - committed position <= processed <= handed to Core (input.at) <= end of log.
//   - The last commit record is never older than what the state file says.
//   - A state file is locked before its task's transactional id is taken over, so a second worker
//     on the same files disturbs nobody.
//   - What is fetched for an earlier reading of a partition never reaches a later one
//     (Fetched.From): records cannot be skipped.
//
// # Goroutines
//
// Worker.Run owns all: one per task (tend, which runs loop.run), one per sub-topology (reader.run,
// with its consumer), one that deletes read records of repartition topics (purge.go). They end
// before Run returns. With Share also one per standby, one for Share.Alone. A task's Core, state
// and transaction belong to its goroutine.
//
// # Locks
//
// Worker.mu, sharing.mu, inbox.mu, reader.mu, taskStatus.mu; none is taken while another is held,
// except that Worker.mu is held over inbox.end, and reader.mu over the Consumer's Assign,
// Unassign, Pause and Resume, which do not block.
//
// # Looking at state
//
// Worker.Parts gives the state files of tasks to others (query.go), with the position of what is in
// them: committed rows only, each view those of one commit. Workers of a group tell each other
// where they can be asked (claim.Address, given.Places).
//
// # Exports
//
// Export writes the state of a pipeline to one file, Import makes it that of another one, or of a
// new generation of it (export.go, import.go). What an export holds is a state the pipeline may
// have: the rows of each task as of its last commit, readers of repartition topics before their
// writers, and what is in those topics between the two. It comes from the changelogs and so costs
// the tasks nothing. An import writes changelogs of its own, in the names of the other pipeline,
// each ended by the task's commit record; the tasks restore from them as ever.
//
//	+---------+------------+--------+--------+-----+--------+
//	| MSSTATE | version u8 | frame H| frame  | ... | frame E|
//	+---------+------------+--------+--------+-----+--------+
//
//	0         4            8        9
//	+---------+------------+--------+------------------------+
//	| len u32 | CRC-32C u32| kind u8| body, len bytes        |  the sum covers kind and body
//	+---------+------------+--------+------------------------+
//
//	H  JSON of exportHeader: parts with their shapes, the commit record of every task
//	L  uvarint task | text source | records under way: varint time | key | value |
//	   uvarint n | n * { text name | value }; key and value: varint length, -1 null
//	R  uvarint task | rows: text changelog key | text value
//	E  JSON of exportEnd: how many rows and records there were
//
// task is an index in the header's list, text has its length, a uvarint, in front.
//
// # Files
//
// <StateDir>/<app>/<sub>-<partition>.db and its companions, see package state.
package task
