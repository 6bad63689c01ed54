// Package controller decides what the cluster's metadata becomes: topics, partitions, configs,
// brokers and producer ids.
//
// # Path
//
// Controller.CreateTopics (and its like) -> queue -> proposer: handle(image, command) -> records
// and reply, several commands into one entry -> raft.Node.Propose -> machine.Apply: replay(records)
// -> new image -> publisher: watchers, then the caller gets the reply.
//
// handle and replay are pure: ids, times and random numbers are in the command.
//
// # Invariants
//
// An entry carries the index of the controller's entry before it; if another came between, it is
// skipped everywhere alike and its commands are decided again. So a record is only ever applied to
// the image it was decided on.
// A command has a request id. The replies of the last maxReplies commands are part of the state, so
// a command that is sent again, because its outcome was not known, is answered and not done twice.
// A call returns after its change was applied and every watcher has seen it; Image then has it too.
//
// # Goroutines
//
// Open starts two, proposer and publisher, beside those of the raft node. Close ends and joins
// them. Watchers run in the publisher, one after the other; they must not call the controller.
//
// # Locks
//
// machine.mu guards state and publishing; nothing is called while it is held.
//
// # Files
//
// Those of core/raft. Snapshots and entries are JSON, versioned, of metadata records.
package controller
