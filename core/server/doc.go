// Package server speaks the Kafka protocol: it owns the client connections, decodes and dispatches
// requests, and writes the answers in the order of the requests.
//
// # Path
//
//	conn.go reads a frame -> handler_table.go has the row of its key -> NN_name.go: decode, one
//	call into the domain (replica, controller, group, txn), encode -> respond.go queues the answer
//	in the connection's FIFO of slots -> one write for all answers that are ready
//
// Produce and Fetch decode and encode by hand and may complete later (acks=all, long poll) while
// the connection goes on reading. Every other request is handled to its end before the next one of
// its connection is read, which is what Kafka does and what keeps "commit, then leave" in order.
//
// A request is timed on its way (span and ended, metrics.go), from dispatch to the write of its
// answer; metrics_page.go tells what was counted, slow_request.go logs what took long.
//
// # Invariants
//
// Answers leave a connection in the order of its requests. Records of one connection are appended
// in the order of its requests. No length sent by a client is allocated before that many bytes, or
// a fixed small part of them, have arrived. Bytes from a client never panic the process: a request
// that does closes its connection.
//
// # Goroutines
//
// One reader per connection, owned by Serve, stopped by closing the socket. At most one writer per
// connection, started when an answer becomes ready outside of the reader, ended when none is. One
// for each parked fetch that is woken, which reads and answers (01_fetch.go). One that waits for a
// client to hang up while the reader is busy with a request, joined by the reader (frame_read.go).
// Close joins all.
//
// # Locks
//
// A connection's slot lock is taken alone. A fetch session's lock comes before that of the cache of
// sessions. Waiters are called without any lock of storage or replica held.
package server
