// Package timers is the deadlines of one shard's groups: sessions, rebalances and the like, in a
// heap that the shard's goroutine looks at. It has no clock and no goroutine.
//
// # Invariants
//
//	a timer is in the heap <=> it is armed
//	queued <= due for each timer in the heap
package timers
