// Package coretest runs a broker inside a test, over an in-memory disk and network.
//
// # Path
//
//	Start -> core.Open over vfs.Mem and vnet.Pipe; Client and Dialer connect to it; Restart closes
//	and opens it again; Crash goes on with what a power cut would have left on the disk
//
// # Locks
//
// Cluster.mu guards which broker runs, and the log buffer has its own; never both at once.
//
// # Goroutines
//
// Those of the broker; they end with the test.
package coretest
