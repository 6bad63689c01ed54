// Package txn is the transaction coordinator: which producer id and epoch a transactional id has,
// which partitions its open transaction wrote to, and how that transaction ends, kept in the topic
// __transaction_state in Kafka's own record format (KIP-98, KIP-360, KIP-890).
//
// # Path
//
// A handler of core/server calls a method of Coordinator; it sends the request to the shard of the
// transactional id (coordinator.Runtime), whose machine decides (machine_init.go, machine_add.go,
// machine_end.go). The decision is a record; the answer goes out when it is durable and replayed.
//
// Ending a transaction takes two records. PREPARE is the decision: once it is durable the client
// has its answer and nothing can change the outcome any more. Then the markers go to every
// partition of the transaction (markers.go), again and again until each has its own, through
// restarts too; the last one makes the COMPLETE record. Between the two, whoever wants to go on is
// told CONCURRENT_TRANSACTIONS.
//
//	InitProducerId        --> Empty, also from each Complete state
//	Empty, Complete       -- AddPartitionsToTxn -----------------------> Ongoing
//	Ongoing               -- EndTxn commits ---------------------------> PrepareCommit
//	Ongoing               -- EndTxn aborts, timeout, InitProducerId ---> PrepareAbort
//	PrepareCommit, -Abort -- every partition has its marker -----------> CompleteCommit, -Abort
//
// By the second version of the protocol (KIP-890) EndTxn may also abort what has no partition yet:
// from Empty or a Complete state to PrepareAbort. It raises the producer's epoch each time.
//
// # Invariants
//
//	the shard of a transactional id = abs(javaStringHash(id)) mod partitions
//	no client has an epoch of math.MaxInt16: it is kept back to fence the last one
//	no marker is sent before its PREPARE record is durable
//	every partition in a PREPARE record has its marker, or is deleted, before COMPLETE is written
//	between two appends at most one transition of a transactional id is in flight (Step.Again)
//
// # Goroutines
//
// Those of coordinator.Runtime; callers wait in their own. Markers: at most maxMarkerWriters
// writers, started when there are markers and gone when there are none, and one for each marker
// that pauses before its next try; Close and the end of a shard's leadership cancel their context.
// One for each transaction whose COMPLETE record is being written.
//
// # Locks
//
// Coordinator.mu guards the tenures of shards, markerQueue.mu the markers that wait. Neither is
// held over an append, a submit or a callback.
//
// # Files
//
// Keys and values of __transaction_state, big-endian:
//
//	key v0    | version i16 = 0 | transactional id: i16 length, bytes |
//
//	value v0  | version i16 = 0 | producer id i64 | producer epoch i16 | timeout ms i32 |
//	          | state i8 | partitions i32 (-1 null) { topic: i16 length, bytes |
//	          |     i32 count { partition i32 } } |
//	          | last update ms i64 | start ms i64 |
//
//	value v1  | version i16 = 1 | producer id i64 | producer epoch i16 | timeout ms i32 |
//	          | state i8 | partitions uvarint n+1 (0 null) { topic: uvarint n+1, bytes |
//	          |     uvarint n+1 { partition i32 } | tags } |
//	          | last update ms i64 | start ms i64 | tags |
//
//	tags      | uvarint count { uvarint tag | uvarint size | bytes } |
//	          | 0 previous producer id i64 (-1) | 1 next producer id i64 (-1) |
//	          | 2 client transaction version i16 (0) | 3 next producer epoch i16 (-1) |
//
// A tag with its default, in brackets, is left out. Version 1 is written from level 1 of
// transaction.version on; both are read. The partitions of an Empty transaction are null. A record
// without a value forgets the id.
package txn
