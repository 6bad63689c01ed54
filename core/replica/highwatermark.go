package replica

import "github.com/millstream-io/millstream/core/storage"

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

// advance recomputes the high watermark after the log has moved, and wakes who waits for it. It
// runs on the goroutine that moved the log.
func (p *Partition) advance() {
	if p.Err() != nil {
		p.waiters.wakeAll() // what they wait for will not come
		return
	}
	r := p.role.Load()
	if !r.enoughInSync() {
		return
	}
	// With one replica in sync, the smallest of their committed offsets is the local one.
	if hw, moved := p.raise(localCommitted(p.log)); moved {
		p.log.SetHighWatermark(hw)
		p.waiters.wake(hw)
	}
}

// raise moves the high watermark up to offset, never down.
func (p *Partition) raise(offset int64) (int64, bool) {
	for {
		old := p.highWatermark.Load()
		if offset <= old {
			return old, false
		}
		if p.highWatermark.CompareAndSwap(old, offset) {
			return offset, true
		}
	}
}
