package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Sizes of pooled buffers. A frame takes the smallest that holds it; one larger than the largest
// is left to the garbage collector.
const (
	firstBufferBytes = 4 << 10  // reader of a connection that has not sent a valid request yet
	readBufferBytes  = 64 << 10 // reader of a connection that has
	largeBufferBytes = 16 << 20 // largest buffer that is kept
)

// bufferClasses are the sizes kept in pools, ascending.
var bufferClasses = [...]int{
	firstBufferBytes, readBufferBytes, 256 << 10, 1 << 20, 4 << 20, 8 << 20, largeBufferBytes,
}

var bufferPools [len(bufferClasses)]sync.Pool

// bufferSize is how large the buffer is that takeBuffer returns.
func bufferSize(n int) int {
	for _, size := range bufferClasses {
		if n <= size {
			return size
		}
	}
	return n
}

// takeBuffer returns a buffer of at least n bytes; its length is its capacity.
func takeBuffer(n int) *[]byte {
	for i, size := range bufferClasses {
		if n > size {
			continue
		}
		if b, ok := bufferPools[i].Get().(*[]byte); ok {
			return b
		}
		b := make([]byte, size)
		return &b
	}
	b := make([]byte, n)
	return &b
}

// giveBuffer returns a buffer taken by takeBuffer; nil is ignored.
func giveBuffer(b *[]byte) {
	if b == nil {
		return
	}
	for i, size := range bufferClasses {
		if cap(*b) == size {
			*b = (*b)[:size]
			bufferPools[i].Put(b)
			return
		}
	}
}

// budget bounds the memory that requests in flight take together. Who wants more than is left
// waits for its turn: its connection is not read meanwhile.
type budget struct {
	total int64
	sem   *semaphore.Weighted
	// used is what is taken, in bytes; waits counts those who did not get theirs at once.
	used, waits atomic.Int64
	// senders are those who may hold it while their requests arrive; nil where nobody looks.
	senders *senders
	// queue is about those who wait; its timer looks for slow senders meanwhile.
	queue struct {
		sync.Mutex
		waiting int
		timer   *time.Timer
	}
}

func newBudget(total int64) *budget {
	return &budget{total: total, sem: semaphore.NewWeighted(total)}
}

// makeBudgets makes the budgets of the connections' memory.
func (s *Server) makeBudgets(total int64) {
	s.readers, s.memory, s.huge = newBudget(total), newBudget(total/2), newBudget(total/2)
	for _, b := range []*budget{s.readers, s.memory, s.huge} {
		b.senders = &s.senders
	}
}

// acquire takes n bytes, or all there are if n is more, and returns what it took.
func (b *budget) acquire(ctx context.Context, n int) (int64, error) {
	take := min(int64(n), b.total)
	if !b.sem.TryAcquire(take) {
		b.waits.Add(1)
		b.enter()
		defer b.leave()
		if err := b.sem.Acquire(ctx, take); err != nil {
			return take, err
		}
	}
	b.used.Add(take)
	return take, nil
}

// release gives back what acquire returned.
func (b *budget) release(n int64) {
	if n > 0 {
		b.used.Add(-n)
		b.sem.Release(n)
	}
}
