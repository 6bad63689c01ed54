// Package vnet is the network: the only door of the log to sockets.
//
// # Path
//
// TCP listens and dials with the kernel. NewPipe makes a network inside the process, of the same
// interface: a Pipe listener accepts what the same Pipe dials.
//
// # Invariants
//
// A Pipe connection is a pair of byte streams as TCP's: bytes arrive in order or not at all, a
// write returns when the bytes fit into a bounded buffer (pipeBuffer bytes a direction), the reader
// of a closed connection gets what was written before and then io.EOF.
//
// # Goroutines
//
// None. Waiting is on sync.Cond, which testing/synctest takes for durably blocked, so a whole
// broker can run in a bubble; a deadline is one time.AfterFunc while somebody waits under it.
//
// # Locks
//
// Pipe, listener and each direction of a connection have one lock each, never held over a wait, and
// never two at once.
package vnet
