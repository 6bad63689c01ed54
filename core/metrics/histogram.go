package metrics

import (
	"sync/atomic"
	"time"
)

// bounds are the upper bounds of all histograms. Half a decade each: below are syncs of a good disk
// and requests from the page cache, above is what somebody has to look at.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Histogram counts durations. The zero value is empty and ready.
type Histogram struct {
	// nanos is the sum of all durations.
	nanos atomic.Int64
	// buckets count what is in (the bound before, its bound]; the last one what is above all.
	buckets [len(bounds) + 1]atomic.Int64
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.nanos.Add(int64(d))
}

// Count returns how many were observed.
func (h *Histogram) Count() int64 {
	n := int64(0)
	for i := range h.buckets {
		n += h.buckets[i].Load()
	}
	return n
}

// Sum returns the sum of what was observed.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.nanos.Load()) }
