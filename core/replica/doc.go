// Package replica is what this node is to each partition: the leader that takes writes and decides
// what is committed.
//
// # Path
//
// Manager.Apply follows the cluster's metadata: it creates, configures and deletes logs and gives
// each Partition its role. A produce goes Manager.Partition, Partition.Append, storage.Log.Append;
// the log's subscription then runs Partition.advance (highwatermark.go), which moves the high
// watermark and the last stable offset and wakes waiters (waiters.go). A fetch goes Partition.Read,
// with read_committed then Partition.AbortedTransactions of what it read.
//
// # Invariants
//
//	logStart <= lastStable <= highWatermark <= logEnd
//
// The high watermark and the last stable offset never go back while this node leads, and nothing
// at or above the high watermark is ever handed to a client. With flush always or group it is at
// most the synced offset, with flush os the end of the log. It does not move while fewer replicas
// are in sync than min.insync.replicas asks for (KIP-966), capped by the number of replicas.
//
// One replica for each partition, the leader, is what works now. A partition led elsewhere refuses
// clients with ErrNotLeader; nothing is fetched from other leaders yet.
//
// # Goroutines
//
// None of its own. Work happens on the caller's goroutine or on the one that moved the log; Apply
// makes several logs at once with goroutines that it joins.
//
// # Locks
//
// Manager.applyToken (a channel, held over disk work of Apply), then Partition.waiters. Lookups and
// the hot path take no lock unless somebody waits. Waiters are woken with no lock held.
package replica
