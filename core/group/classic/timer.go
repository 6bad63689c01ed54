package classic

import (
	"container/heap"
	"time"
)

// Timer is one deadline in a Timers. Its zero value with Run set is ready to be armed.
type Timer struct {
	// Group is whose timer it is, nil for one that belongs to no group.
	Group *Group
	// Run is called when the deadline has come; the timer is not armed then.
	Run func(now time.Time, fx *Effects)

	due    time.Time // when to run
	queued time.Time // its key in the heap: queued <= due
	index  int       // position in the heap + 1, 0 if it is not armed
}

// Timers are the deadlines of one shard. A heartbeat moves a deadline later, which costs nothing
// here: the heap keeps the old key, and Next corrects it when it comes to the front.
type Timers struct{ h timerHeap }

// Arm sets, or moves, the deadline of t.
func (ts *Timers) Arm(t *Timer, at time.Time) {
	t.due = at
	switch {
	case t.index == 0:
		t.queued = at
		heap.Push(&ts.h, t)
	case at.Before(t.queued):
		t.queued = at
		heap.Fix(&ts.h, t.index-1)
	}
}

// Stop takes t out, if it is armed.
func (ts *Timers) Stop(t *Timer) {
	if t.index != 0 {
		heap.Remove(&ts.h, t.index-1)
	}
}

// Next returns the timer with the earliest deadline, nil if none is armed.
func (ts *Timers) Next() (*Timer, time.Time) {
	for len(ts.h) > 0 {
		t := ts.h[0]
		if !t.due.After(t.queued) {
			return t, t.due
		}
		t.queued = t.due
		heap.Fix(&ts.h, 0)
	}
	return nil, time.Time{}
}

// timerHeap orders by queued; it implements heap.Interface.
type timerHeap []*Timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].queued.Before(h[j].queued) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

// Push adds x at the end.
func (h *timerHeap) Push(x any) {
	t := x.(*Timer)
	*h = append(*h, t)
	t.index = len(*h)
}

// Pop removes the last.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = 0
	return t
}
