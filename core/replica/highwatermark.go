package replica

import (
	"sync/atomic"

	"github.com/millstream-io/millstream/core/storage"
)

// role is what the metadata says about a partition and this node. It is immutable.
type role struct {
	leader      bool
	leaderEpoch int32
	replicas    int // assigned
	inSync      int // of them in sync, this node included
	minInSync   int // min.insync.replicas, capped by replicas
}

// enoughInSync is the gate of acks=all and of the high watermark (KIP-966, strict min ISR).
func (r *role) enoughInSync() bool { return r.inSync >= r.minInSync }

// localCommitted returns below which offset this replica will not lose records it confirms: what is
// synced, or, with flush os, what is in the page cache.
func localCommitted(l *storage.Log) int64 {
	if l.Config().Flush == storage.FlushOS {
		return l.EndOffset()
	}
	return l.SyncedOffset()
}

// advance recomputes the high watermark and the last stable offset after the log has moved, and
// wakes who waits for them. It runs on the goroutine that moved the log.
func (p *Partition) advance() {
	if p.Err() != nil {
		p.wakeAll() // what they wait for will not come
		return
	}
	r := p.role.Load()
	if !r.enoughInSync() {
		return
	}
	// With one replica in sync, the smallest of their committed offsets is the local one.
	hw := localCommitted(p.log)
	moved := raise(&p.highWatermark, hw)
	if moved {
		p.log.SetHighWatermark(hw)
	}
	p.advanceStable()
	if moved {
		raise(&p.confirmed, hw)
		p.waiters.wake(hw)
	}
}

// advanceStable follows the log with the last stable offset, which moves with the high watermark
// and the log's start, and wakes who waits for it.
func (p *Partition) advanceStable() {
	if lso := p.log.LastStableOffset(); raise(&p.lastStable, lso) {
		p.stable.wake(lso)
	}
}

// raise moves a watermark up to offset, never down; false if it is there already.
func raise(watermark *atomic.Int64, offset int64) bool {
	for {
		old := watermark.Load()
		if offset <= old {
			return false
		}
		if watermark.CompareAndSwap(old, offset) {
			return true
		}
	}
}
