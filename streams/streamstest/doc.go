// Package streamstest runs a topology without a broker: feed records, move time, crash, read what
// came out.
//
// # Path
//
//	New(builder) -> Driver.Feed -> Driver.Run -> task cores, in-memory topics -> Driver.Output
//	NewWorkers(builder, n) -> the same by real workers with state files over client.Memory
//
// # Invariants
//
//   - The Driver does what the real worker does with the same task cores: reads in batches, commits
//     outputs, state and positions together, goes back to the last commit after a crash.
//   - With Options.Rand tasks, batch sizes, commits and crashes are chosen at random from it. The
//     output of a topology must not depend on them.
//
// # Goroutines
//
// Driver: none. Workers: those of the workers, ended by Stop.
package streamstest
