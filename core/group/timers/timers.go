package timers

import (
	"container/heap"
	"time"
)

// Owner is whose deadline it is.
type Owner interface{ ID() string }

// Timer is one deadline in a Queue. Its zero value with Run set is ready to be armed.
type Timer[E any] struct {
	// Group is whose timer it is, nil for one that belongs to no group.
	Group Owner
	// Run is called when the deadline has come; the timer is not armed then.
	Run func(now time.Time, effects *E)

	due    time.Time // when to run
	queued time.Time // its key in the heap: queued <= due
	index  int       // position in the heap + 1, 0 if it is not armed
}

// Armed says whether the timer waits for its deadline.
func (t *Timer[E]) Armed() bool { return t.index != 0 }

// Queue is the deadlines of one shard. A heartbeat moves a deadline later, which costs nothing
// here: the heap keeps the old key, and Next corrects it when it comes to the front.
type Queue[E any] struct{ h timerHeap[E] }

// Arm sets, or moves, the deadline of t.
func (q *Queue[E]) Arm(t *Timer[E], at time.Time) {
	t.due = at
	switch {
	case t.index == 0:
		t.queued = at
		heap.Push(&q.h, t)
	case at.Before(t.queued):
		t.queued = at
		heap.Fix(&q.h, t.index-1)
	}
}

// Stop takes t out, if it is armed.
func (q *Queue[E]) Stop(t *Timer[E]) {
	if t.index != 0 {
		heap.Remove(&q.h, t.index-1)
	}
}

// Next returns the timer with the earliest deadline, nil if none is armed.
func (q *Queue[E]) Next() (*Timer[E], time.Time) {
	for len(q.h) > 0 {
		t := q.h[0]
		if !t.due.After(t.queued) {
			return t, t.due
		}
		t.queued = t.due
		heap.Fix(&q.h, 0)
	}
	return nil, time.Time{}
}

// timerHeap orders by queued; it implements heap.Interface.
type timerHeap[E any] []*Timer[E]

func (h timerHeap[E]) Len() int           { return len(h) }
func (h timerHeap[E]) Less(i, j int) bool { return h[i].queued.Before(h[j].queued) }
func (h timerHeap[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

// Push adds x at the end.
func (h *timerHeap[E]) Push(x any) {
	t := x.(*Timer[E])
	*h = append(*h, t)
	t.index = len(*h)
}

// Pop removes the last.
func (h *timerHeap[E]) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = 0
	return t
}
