// Package group is the group coordinator: who is in which group (classic/, and consumer/ for the
// protocol of KIP-848), and what each group has committed (offsets/), kept in the topic
// __consumer_offsets in Kafka's own record format.
//
// # Path
//
// A handler of core/server calls a method of Coordinator; it sends the request to the shard of the
// group (coordinator.Runtime), whose machine (machine.go) finds the group and lets classic.Group,
// consumer.Group or the offsets table decide. What has to be kept becomes records; the answer goes
// out when they are durable and replayed.
//
// # Invariants
//
//	the shard of a group = abs(javaStringHash(group)) mod partitions of __consumer_offsets
//	a group exists <=> it has members, a metadata record, committed or pending offsets, or ids
//	    given out
//	an offset of a transaction is pending from its record to the transaction's marker; then the
//	    committed offset = that of the later record of the two (what compaction keeps)
//	a name is that of a classic or of a consumer group, never of both (machine_consumer.go)
//	between two appends at most one metadata record of a group is in flight (Step.Again)
//
// # Goroutines
//
// Those of coordinator.Runtime. Callers wait in their own.
package group
