// Package coordinator runs state machines that keep their state in a log, one machine for each
// partition of an internal topic (a shard): group and transaction coordinators.
//
// # Path
//
// Runtime.Submit puts an input into the queue of its shard. The shard's goroutine takes all that
// wait, asks Machine.Handle for a Step (records and outputs), appends the records of many steps
// with one Log.Append, gives each record to Machine.Replay and then delivers the outputs. What is
// not durable has therefore not happened for any caller. An output may be held back by the machine
// for as long as it likes (a JoinGroup waits for its rebalance): the Ticket that came with the
// input is its address.
//
// A step may belong to a producer's transaction, or be the marker that ends one (KIP-98): it is a
// batch of its own then, after those before it and before the machine is asked anything else, and
// comes back through TransactionalMachine.
//
// # Invariants
//
//	every ticket is answered exactly once, at the latest when its shard stops
//	state of a machine = fold of Replay over its log + volatile state made by Handle and Tick
//	an append whose outcome is not known makes the shard load again from its log: memory is never
//	    behind it or ahead of it
//	answers are given only in the leader epoch in which the shard was loaded
//
// # Goroutines
//
// One for each shard this node leads, started by Lead, stopped by Resign or Close, which cancel its
// context. The next one for the same shard starts only when the last has ended. Callbacks run on
// it.
//
// # Locks
//
// Runtime.mu guards the table of shards, shard.mu a shard's queue and phase; neither is held over
// a callback, a channel operation or an append. Order: Runtime.mu before shard.mu.
package coordinator
