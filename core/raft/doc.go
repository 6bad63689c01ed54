// Package raft drives etcd's raft for the metadata log: it gives the pure algorithm a disk, ticks
// and a state machine.
//
// # Path
//
// Node.Propose -> loop: RawNode.Propose -> Ready -> store.append (log on the disk, synced) ->
// Advance -> committed entries -> StateMachine.Apply -> Propose returns. Open reads snapshot,
// quorum-state and log, and hands the committed part to the state machine again.
//
// # Invariants
//
// An entry is applied, and a vote or term used, only after it is on the disk.
// Raft index i is offset i-1 of the log; the batch's leader epoch is the term, so that each entry
// carries its own checksum.
// The log reaches back to the older of the two snapshots that are kept, so that the newest may be
// damaged: firstIndex <= older.index + 1.
// The first error of the disk ends the node for good (Done, Err): a sync is never tried again,
// since the kernel may have dropped the bytes it failed on.
//
// # Goroutines
//
// Open starts the loop, which owns everything but the state machine's snapshot encoding; that runs
// in a second one, at most one at a time. Close stops both and joins them.
//
// # Locks
//
// None is held over a call to the state machine or the disk.
//
// CheckState and CheckedLog look at the files of a node that does not run.
//
// # Files
//
// In Options.Dir: quorum-state (term, vote and voters), snapshot-INDEX-TERM with 20 digits each,
// the two newest. Each is one record batch, so it has a CRC, and is replaced by WriteFileAtomic.
//
// There is one voter today. A second needs a transport, which is not there yet: Open refuses it.
package raft
