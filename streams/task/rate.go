package task

import (
	"sync"
	"time"

	"github.com/millstream-io/millstream/streams/topology"
)

// A rate gives out what was saved up during a pause of up to rateSaved, but at once only what is
// due in rateSlice: so commits and slow fetches do not lower the rate, and nobody sees a burst.
const (
	rateSaved = time.Second
	rateSlice = 20 * time.Millisecond
)

// rate bounds how many records of the outside world the tasks of a worker process in a second, all
// together. What it gives out says when records are processed, never in which order.
type rate struct {
	perSecond int64 // of all tasks of the topology; 0 is no bound
	tasks     int   // of the topology that read the outside world
	mu        struct {
		sync.Mutex
		// here are the tasks that this worker has, or has had to their end.
		here int
		// left are records that may be processed, as of at.
		left float64
		at   time.Time
	}
}

func newRate(perSecond int64, t *topology.Topology) *rate {
	r := &rate{perSecond: perSecond}
	for _, sub := range t.Subs {
		if reads(sub) {
			r.tasks += int(sub.Partitions)
		}
	}
	return r
}

// reads tells whether tasks of a part read the outside world.
func reads(sub *topology.Sub) bool {
	for i := range sub.Sources {
		if !sub.Sources[i].Repartition() {
			return true
		}
	}
	return false
}

// join and leave tell of a task that runs here.
func (r *rate) join()  { r.add(1) }
func (r *rate) leave() { r.add(-1) }

func (r *rate) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.here += n
	if r.mu.at.IsZero() {
		r.mu.at = time.Now()
	}
}

// mine is the part of the rate that the tasks here have, per second. Several workers have no bucket
// in common: each has as much of the rate as it has of the tasks.
func (r *rate) mine() float64 {
	return max(1e-3, float64(r.perSecond)*float64(r.mu.here)/float64(max(1, r.tasks)))
}

// take returns how many of n records may be processed now, and if fewer, when to ask again.
func (r *rate) take(n int) (may int, again time.Duration) {
	if r.perSecond <= 0 {
		return n, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, mine := time.Now(), r.mine()
	r.mu.left = min(r.mu.left+mine*now.Sub(r.mu.at).Seconds(), max(1, mine*rateSaved.Seconds()))
	r.mu.at = now
	slice := max(1, mine*rateSlice.Seconds())
	if r.mu.left < slice && r.mu.left < float64(n) {
		return 0, time.Duration((slice - r.mu.left) / mine * float64(time.Second))
	}
	may = min(n, int(slice))
	r.mu.left -= float64(may)
	if may < n {
		again = time.Millisecond // others take their turn
	}
	return may, again
}

// giveBack returns what was taken and not used.
func (r *rate) giveBack(n int) {
	if r.perSecond <= 0 || n <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.left += float64(n)
}
