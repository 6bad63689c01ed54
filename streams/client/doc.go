// Package client is how the streams layer reaches a log: small ports over batches of records, an
// adapter that speaks the Kafka protocol, and an in-memory twin for tests.
//
// # Path
//
//	task -> Producer.Send(tp, records) ~ broker -> Producer.Flush returns when all is acknowledged
//	task <- Consumer.Poll() <- broker           from positions the caller assigns and keeps
//	task -> Transactor.Commit(group, offsets)   everything sent since the last one counts, or nothing
//	worker -> Admin                             topics, log ends, offsets committed to a group
//
//	worker -> Member.Next -> assignment         several processes share the tasks of a topology
//
// Membership says who does what and moves no positions: the caller reads what it was given from
// where its own commits say. Consumers read what is committed.
//
// # Invariants
//
//   - Records sent by one Producer to one partition are appended in the order of the Sends, and a
//     retry never appends twice (idempotent producer).
//   - After a failed append a Producer accepts nothing more and every Flush returns that failure:
//     a record can be missing only behind an error the caller has seen.
//   - Of two Transactors of one id, the later one alone can commit; it begins when the last
//     transaction of the earlier one has ended. Every error about that is ErrLost.
//   - A Consumer returns the records of a partition in offset order from the assigned position on,
//     none twice, none left out. A position that is not in the log any more is an error, never a
//     silent jump.
//
// # A transaction's records
//
// Most of what a pipeline writes goes through a Transactor, so it makes its batches itself: Send
// encodes records into the batch of their partition (kafka_batches.go), and full batches, all of
// them at a Flush, go to their leaders, one request at a time to each broker with one batch of each
// partition (kafka_txn_send.go). A request without an answer is sent again: by the sequences of its
// batches the broker tells what it has. With one batch of a partition on its way there is no gap
// that a later one could jump. What a broker refuses for good, and every end of the right to the
// transaction, ends the Transactor. A Producer goes through kgo, record by record.
//
// # Goroutines
//
// Kafka: those of the kgo clients, and one per Member that sends heartbeats, ended by Close; of a
// Consumer the one of manage, and one for each fetch and look-up of leaders on its way; of a
// Transactor one for each produce request and look-up on its way, ended by Close, and a timer for
// each batch that is sent again, which may run out after it.
// Memory: none.
//
// # Locks
//
// kafkaConsumer.mu, spareMemory.mu, txnQueue, unacked.mu, kafkaMember.mu, memGroup.mu and
// Memory.mu; none is held over a wait, only memGroup.mu over callbacks (Claim, Assign), and only
// txnQueue while unacked.mu is taken.
package client
