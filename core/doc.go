// Package core wires the broker: one Open call starts the log, the controller, the group
// coordinator, the Kafka listener and the HTTP endpoints of one node.
//
// # Path
//
//	Open -> storage.OpenDir (process lock, recovery) -> raft and controller (metadata replay) ->
//	register this broker -> replica.Manager and group.Coordinator follow the metadata ->
//	server.Server on the listener and on an in-memory pipe -> HTTP endpoints
//
// # Invariants
//
// No logic of its own: every decision is in the packages below. A Broker that Open returned serves
// clients. What a client was told is on the disk survives a kill at any moment.
//
// # Goroutines
//
// Open starts one for each of: the data directory, the directory of the metadata log, the listener,
// the pipe, the HTTP server, the watch for the controller's end, and the deletion of a gone topic's
// offsets (follower.go). Close joins them. Images are followed on the controller's publisher.
//
// # Locks
//
// Broker.mu guards why the broker failed and whether it drains; nothing is called while it is held.
//
// # Files
//
//	DataDir/data/  partitions, in Kafka's own format, with the lock and meta.properties
//	DataDir/raft/  the metadata log
package core
