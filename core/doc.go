// Package core wires the broker: one Open call starts the log, the controller, the coordinators of
// groups and transactions, the Kafka listener and the HTTP endpoints of one node. Check looks at
// the files of a broker that is stopped.
//
// # Path
//
//	Open -> storage.OpenDir (process lock, recovery) -> raft and controller (metadata replay) ->
//	register this broker -> replica.Manager, group.Coordinator, txn.Coordinator and
//	compact.Cleaner follow the metadata (follower.go, settings.go) ->
//	server.Server on the listener and on an in-memory pipe -> HTTP endpoints
//
// collector.go writes what /metrics tells of the parts when somebody asks.
//
// What one package needs of another that it must not import goes through here: the log of the
// coordinators (internal_log.go), the markers of transactions (markers.go), the topics that
// consumer groups see (groups.go), the levels of loggers (loglevels.go).
//
// # Invariants
//
// No logic of its own: every decision is in the packages below. A Broker that Open returned serves
// clients. What a client was told is on the disk survives a kill at any moment.
//
// # Goroutines
//
// Open starts one for each of: the data directory, the directory of the metadata log, compaction,
// each listener, the pipe, the HTTP server, the watch for the controller's end, and the deletion of
// a gone topic's offsets (follower.go). Close joins them. Images are followed on the controller's
// publisher.
//
// # Locks
//
// Broker.mu guards why the broker failed and whether it drains; nothing is called while it is held.
// Broker.configuring is held while the parts are given new settings. logLevels.mu guards levels.
//
// # Files
//
//	DataDir/data/  partitions, in Kafka's own format, with the lock and meta.properties
//	DataDir/raft/  the metadata log
package core
