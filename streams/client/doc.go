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
// # Goroutines
//
// Kafka: those of the kgo clients, and one per Member that sends heartbeats, ended by Close; of a
// Consumer the one of manage, and one for each fetch and look-up of leaders on its way.
// Memory: none.
//
// # Locks
//
// kafkaConsumer.mu, kafkaProducer.mu, kafkaMember.mu, memGroup.mu and Memory.mu; none is held over
// a wait, and only memGroup.mu over callbacks (Claim, Assign).
package client
