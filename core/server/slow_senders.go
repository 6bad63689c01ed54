package server

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A request holds memory while its bytes arrive. A few clients that trickle could so keep all of a
// budget, and nobody else would be read. While somebody waits for memory, requests that hold some
// of it have to arrive at a least rate; those that do not have their connections closed. A slow
// client that nobody waits for is left alone.
const (
	// sendPatience is how long somebody waits before others are looked at, and how long a request
	// may take in any case.
	sendPatience = 2 * time.Second
	// lookEvery is the time between two looks while somebody waits.
	lookEvery = time.Second
	// leastRate is how many bytes a second have to arrive of any request, sendWithin how long a
	// whole one may take: the larger it is, the faster it has to be, since it holds more.
	leastRate  = 64 << 10
	sendWithin = 30 * time.Second
)

// errHoldsMemory ends a connection that sends too slowly while others wait.
var errHoldsMemory = errors.New("request too slow: it holds memory that others wait for")

// arrival is what is known of the request that a connection is reading. The reader writes it, who
// looks for slow ones reads it.
type arrival struct {
	// of is the budget whose memory is held meanwhile; nil when nothing is read. It is set last.
	of atomic.Pointer[budget]
	// since is when the memory was held, by clock; size is what was to come then, got what has.
	since, size, got atomic.Int64
}

// begin tells that size bytes are to come, for which memory of b is held.
func (a *arrival) begin(b *budget, size int) {
	a.since.Store(clock())
	a.size.Store(int64(size))
	a.got.Store(0)
	a.of.Store(b)
}

// end tells that nothing is read any more.
func (a *arrival) end() { a.of.Store(nil) }

// slow tells whether a request that holds memory of b comes too slowly, and says how slowly.
func (a *arrival) slow(b *budget, now int64) error {
	if a.of.Load() != b {
		return nil
	}
	since, size, got := a.since.Load(), a.size.Load(), a.got.Load()
	held := time.Duration(now - since)
	rate := max(leastRate, float64(size)/sendWithin.Seconds())
	if held < sendPatience || float64(got) >= rate*held.Seconds() {
		return nil
	}
	if a.of.Load() != b || a.since.Load() != since {
		return nil // the next one already
	}
	return fmt.Errorf("%w: %d of %d bytes came in %v", errHoldsMemory, got, size,
		held.Round(time.Millisecond))
}

// senders are the connections whose requests may hold memory.
type senders struct {
	mu  sync.Mutex
	all map[*frameReader]struct{}
	// closed counts those that were closed for slowness.
	closed atomic.Int64
}

func (s *senders) add(f *frameReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*frameReader]struct{})
	}
	s.all[f] = struct{}{}
}

func (s *senders) remove(f *frameReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, f)
}

// closeSlow closes the connections that hold memory of b and send too slowly.
func (s *senders) closeSlow(b *budget) {
	now := clock()
	reasons := make(map[*frameReader]error)
	s.mu.Lock()
	for f := range s.all {
		if err := f.arrival.slow(b, now); err != nil {
			reasons[f] = err
		}
	}
	s.mu.Unlock()
	for f, err := range reasons {
		s.closed.Add(1)
		f.tooSlow(err)
	}
}

// enter tells that somebody begins to wait for b.
func (b *budget) enter() {
	b.queue.Lock()
	defer b.queue.Unlock()
	if b.queue.waiting++; b.queue.waiting == 1 && b.senders != nil {
		b.queue.timer = time.AfterFunc(sendPatience, b.look)
	}
}

// leave tells that somebody does not wait any more.
func (b *budget) leave() {
	b.queue.Lock()
	defer b.queue.Unlock()
	if b.queue.waiting--; b.queue.waiting == 0 && b.queue.timer != nil {
		b.queue.timer.Stop()
	}
}

// look closes slow connections as long as somebody waits.
func (b *budget) look() {
	b.queue.Lock()
	waiting := b.queue.waiting > 0
	if waiting {
		b.queue.timer.Reset(lookEvery)
	}
	b.queue.Unlock()
	if waiting {
		b.senders.closeSlow(b)
	}
}
