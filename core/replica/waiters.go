package replica

import (
	"sync"
	"sync/atomic"
)

// Waiter is told when what it waits for may be there. Wake must not block: it runs on the goroutine
// of whoever moved the partition.
type Waiter interface{ Wake() }

// waiting is one registration.
type waiting struct {
	waiter Waiter
	above  int64 // wake when the watermark is larger
}

// waiters is a list of registrations for one of a partition's watermarks. While it is empty, moving
// the watermark costs one atomic load.
type waiters struct {
	// count is larger than 0 before a registration looks at the watermark, and the watermark is
	// stored before count is looked at: one of the two sees the other.
	count atomic.Int64
	mu    struct {
		sync.Mutex
		list []waiting
	}
}

// add registers w unless the watermark is larger than above already, which is false.
func (ws *waiters) add(w Waiter, above int64, watermark *atomic.Int64) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.count.Add(1)
	if watermark.Load() > above {
		ws.count.Add(-1)
		return false
	}
	ws.mu.list = append(ws.mu.list, waiting{w, above})
	return true
}

// wake removes and wakes the registrations that watermark satisfies.
func (ws *waiters) wake(watermark int64) {
	if ws.count.Load() == 0 {
		return
	}
	var few [8]Waiter
	for _, w := range ws.take(few[:0], func(r *waiting) bool { return watermark > r.above }) {
		w.Wake()
	}
}

// wakeAll removes and wakes every registration.
func (ws *waiters) wakeAll() {
	if ws.count.Load() == 0 {
		return
	}
	for _, w := range ws.take(nil, func(*waiting) bool { return true }) {
		w.Wake()
	}
}

// forget removes the registrations of w without waking it; false if there are none.
func (ws *waiters) forget(w Waiter) bool {
	if ws.count.Load() == 0 {
		return false
	}
	var few [8]Waiter
	return len(ws.take(few[:0], func(r *waiting) bool { return r.waiter == w })) > 0
}

// take removes the registrations that match and appends their waiters to dst.
func (ws *waiters) take(dst []Waiter, match func(*waiting) bool) []Waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	kept := ws.mu.list[:0]
	for i := range ws.mu.list {
		if r := &ws.mu.list[i]; match(r) {
			dst = append(dst, r.waiter)
		} else {
			kept = append(kept, *r)
		}
	}
	ws.count.Add(int64(len(kept) - len(ws.mu.list)))
	clear(ws.mu.list[len(kept):])
	ws.mu.list = kept
	return dst
}
