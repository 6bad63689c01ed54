package coordinator

import (
	"sync"
	"sync/atomic"
)

// Tally counts what the machines of all shards hold together, so that it can be bounded. The zero
// value is ready for use.
type Tally struct {
	total atomic.Int64
	mu    struct {
		sync.Mutex
		shares map[int32]*Share // by shard, of its last machine
	}
}

// Total is what all shards hold.
func (t *Tally) Total() int64 { return t.total.Load() }

// Begin returns the share of a shard's new machine; what the one before held counts no more.
func (t *Tally) Begin(shard int32) *Share {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.shares == nil {
		t.mu.shares = make(map[int32]*Share)
	}
	if old := t.mu.shares[shard]; old != nil {
		t.total.Add(-old.held)
		old.ended = true
	}
	s := &Share{tally: t}
	t.mu.shares[shard] = s
	return s
}

// Share is what one machine holds. Set is for its goroutine only.
type Share struct {
	tally *Tally
	// held is what was set last, seen that of the machine's goroutine. The tally's lock guards held
	// and ended.
	held  int64
	seen  int64
	ended bool
}

// Set says what the machine holds now.
func (s *Share) Set(n int) {
	if s == nil || s.seen == int64(n) {
		return
	}
	s.seen = int64(n)
	s.tally.mu.Lock()
	defer s.tally.mu.Unlock()
	if !s.ended {
		s.tally.total.Add(s.seen - s.held)
		s.held = s.seen
	}
}

// Full tells whether all shards together hold as much as they may; 0 is no bound.
func (s *Share) Full(most int) bool {
	return s != nil && most > 0 && s.tally.total.Load() >= int64(most)
}
