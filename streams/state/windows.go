package state

import (
	"maps"
	"slices"
)

// windows is one named set of buckets by window start.
type windows struct {
	db      *DB
	name    string
	buckets map[int64]*bucket
}

var _ Windows = (*windows)(nil)

// Window implements Windows.
func (w *windows) Window(start int64) Store { return w.bucket(start) }

func (w *windows) bucket(start int64) *bucket {
	b := w.buckets[start]
	if b == nil {
		b = w.db.newBucket(bucketID{name: w.name, windowed: true, start: start})
		w.buckets[start] = b
	}
	return b
}

// Starts implements Windows.
func (w *windows) Starts() ([]int64, error) {
	if w.db.closed {
		return nil, ErrClosed
	}
	starts := make([]int64, 0, len(w.buckets))
	for _, start := range slices.Sorted(maps.Keys(w.buckets)) {
		has, err := w.buckets[start].hasRows()
		if err != nil {
			return nil, err
		}
		if has {
			starts = append(starts, start)
		}
	}
	return starts, nil
}

// hasRows reports whether the bucket has a visible row.
func (b *bucket) hasRows() (bool, error) {
	for _, r := range b.rows {
		if _, ok, decided := r.visible(); decided && ok {
			return true, nil
		}
	}
	if !b.onDisk {
		return false, nil
	}
	has := false
	err := b.Scan(nil, nil, func(_, _ []byte) error {
		has = true
		return ErrStop
	})
	return has, err
}

// Drop implements Windows. Each row is deleted, because the changelog needs a tombstone for each;
// the file drops the bucket in one step.
func (w *windows) Drop(start int64) error {
	if w.db.closed {
		return ErrClosed
	}
	b := w.buckets[start]
	if b == nil {
		return nil
	}
	var keys [][]byte
	err := b.Scan(nil, nil, func(k, _ []byte) error {
		keys = append(keys, slices.Clone(k))
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	if !b.dropPending {
		b.dropPending = true
		w.db.dropped = append(w.db.dropped, b)
	}
	return nil
}

// retire takes a dropped window out of memory unless it has rows again.
func (b *bucket) retire() {
	for _, r := range b.rows {
		if r.pending || !r.absent {
			return
		}
	}
	w := b.db.windows[b.id.name]
	for _, r := range b.rows {
		b.db.cacheBytes -= int64(len(r.key)+len(r.val)) + rowOverhead
	}
	b.rows = map[string]*row{}
	b.unindex()
	b.onDisk = b.db.file != nil && b.db.file.exists(b.id)
	if w != nil && w.buckets[b.id.start] == b && !b.onDisk {
		delete(w.buckets, b.id.start)
	}
}

// forgetDropped lets go of the rows of windows that were dropped and got no new ones: the changelog
// has their deletions, and the file drops the bucket as a whole. Most windows live shorter than
// rows wait for the file, so their rows would be most of what waits.
func (db *DB) forgetDropped() {
	forgot := false
	for _, b := range db.dropped {
		if b.id.windowed && b.allAbsent() {
			b.forgetRows()
			forgot = true
		}
	}
	clear(db.dropped)
	db.dropped = db.dropped[:0]
	if !forgot {
		return
	}
	db.dirty = slices.DeleteFunc(db.dirty, func(p pendingRow) bool { return !p.r.dirty })
}

func (b *bucket) allAbsent() bool {
	for _, r := range b.rows {
		if r.pending || !r.known || !r.absent {
			return false
		}
	}
	return true
}

// forgetRows takes committed deletions out of memory, also those the file does not have yet.
func (b *bucket) forgetRows() {
	for _, r := range b.rows {
		if r.dirty {
			r.dirty = false
			b.db.dirtyBytes -= int64(len(r.key)+len(r.val)) + rowOverhead
		}
		b.db.cacheBytes -= int64(len(r.key)+len(r.val)) + rowOverhead
	}
	b.rows = map[string]*row{}
	b.unindex()
}
