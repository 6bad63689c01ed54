package state

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

// sizes measures what each store takes in the file, beside the work of the task: a walk over its
// pages, which takes at most a hundredth of the time.
type sizes struct {
	// last is what was found, by store.
	last atomic.Pointer[map[string]int64]
	// busy: a walk is under way.
	busy atomic.Bool
	// next, in ns since 1970, is when the next walk may begin.
	next atomic.Int64
	wg   sync.WaitGroup
}

// measureEvery is the least time between the ends of two walks and their next one.
const measureEvery = 10 * time.Second

// Size returns the bytes of the state: of the rows that are not in the file yet, and of the file.
func (db *DB) Size() int64 {
	size := db.pendingBytes + db.dirtyBytes
	if db.file == nil {
		return size
	}
	if info, err := os.Stat(db.file.path); err == nil { // it is only shown
		size += info.Size()
	}
	return size
}

// StoreSizes returns about how many bytes each store takes: in the file when it was last looked at,
// or in memory when there is no file. Windows count to their store.
func (db *DB) StoreSizes() map[string]int64 {
	if db.file != nil {
		if last := db.file.sizes.last.Load(); last != nil {
			return *last
		}
		return nil
	}
	found := make(map[string]int64, len(db.stores)+len(db.windows))
	for b := range db.buckets() {
		found[b.id.name] += b.size
	}
	return found
}

// measure walks over the file in the background, if it is time.
func (f *file) measure(now time.Time) {
	s := &f.sizes
	if now.UnixNano() < s.next.Load() || !s.busy.CompareAndSwap(false, true) {
		return
	}
	s.wg.Go(func() {
		defer s.busy.Store(false)
		began := time.Now()
		walked := make(chan struct{})
		defer close(walked)
		s.wg.Go(func() { f.releaseUntil(walked) })
		if found, err := f.walk(); err == nil { // one that fails is of the next read to tell
			s.last.Store(&found)
		}
		ended := time.Now()
		s.next.Store(ended.Add(max(measureEvery, 100*ended.Sub(began))).UnixNano())
	})
}

// releaseEvery is how often a walk lets go of the pages it has looked at.
const releaseEvery = 50 * time.Millisecond

// releaseUntil lets go of mapped pages until done, and once more then.
func (f *file) releaseUntil(done <-chan struct{}) {
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.release()
		case <-done:
			f.release()
			return
		}
	}
}

// walk looks at each store in a transaction of its own, so that a write does not wait long.
func (f *file) walk() (map[string]int64, error) {
	var names []string
	view := func(fn func(tx *bolt.Tx) error) error {
		return f.guard(func() error { return f.db.View(fn) })
	}
	err := view(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			names = append(names, string(name))
			return nil
		})
	})
	found := map[string]int64{}
	for _, name := range names {
		kind, store, ok := strings.Cut(name, "/")
		if !ok || kind != "k" && kind != "w" {
			continue
		}
		if e := view(func(tx *bolt.Tx) error {
			if b := tx.Bucket([]byte(name)); b != nil {
				found[store] += allocated(b.Stats())
			}
			return nil
		}); e != nil {
			return nil, e
		}
	}
	return found, err
}

// allocated is what a bucket takes. One that lies within the page of its parent has no page.
func allocated(s bolt.BucketStats) int64 {
	if pages := s.BranchAlloc + s.LeafAlloc; pages > 0 {
		return int64(pages)
	}
	return int64(s.InlineBucketInuse)
}
