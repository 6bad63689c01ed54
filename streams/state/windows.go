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
	has := false
	b.each(func(_ uint32, r *row) {
		_, ok, decided := b.visible(r)
		has = has || decided && ok
	})
	if has || !b.onDisk {
		return has, nil
	}
	err := b.Scan(nil, nil, func(_, _ []byte) error {
		has = true
		return ErrStop
	})
	return has, err
}

// Drop implements Windows. Each row is deleted, because the changelog needs a tombstone for each
// that it has; the file drops the bucket in one step.
func (w *windows) Drop(start int64) error {
	if w.db.closed {
		return ErrClosed
	}
	b := w.buckets[start]
	if b == nil {
		return nil
	}
	drop := b.dropRows
	if b.onDisk {
		drop = b.dropAll
	}
	if err := drop(); err != nil {
		return err
	}
	if !b.dropPending {
		b.dropPending = true
		w.db.dropped = append(w.db.dropped, b)
	}
	return nil
}

// dropAll deletes the rows of a bucket that may have some in the file.
func (b *bucket) dropAll() error {
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
	return nil
}

// dropRows deletes the rows of a bucket that are all in memory. Where no commit knows of any, they
// leave it at once: most windows live shorter than it takes to catch up with a backlog's commit.
func (b *bucket) dropRows() error {
	var born []uint32
	unborn := true
	b.each(func(n uint32, r *row) {
		if !r.unborn() {
			unborn = false
			if _, ok, _ := b.visible(r); ok {
				born = append(born, n)
			}
		}
	})
	if unborn {
		b.forgetRows()
		return nil
	}
	slices.SortFunc(born, b.byKey)
	for _, n := range born {
		b.takeOut(b.change(n))
	}
	for _, n := range b.pending {
		if r := b.row(n); !r.deleted {
			b.takeOut(r)
		}
	}
	return nil
}

// retire takes a dropped window out of memory unless it has rows again.
func (b *bucket) retire() {
	if !b.allAbsent() {
		return
	}
	w := b.db.windows[b.id.name]
	b.forgetRows()
	b.onDisk = b.db.file != nil && b.db.file.exists(b.id)
	if w != nil && w.buckets[b.id.start] == b && !b.onDisk {
		delete(w.buckets, b.id.start)
	}
}

// forgetDropped lets go of the rows of windows that were dropped and got no new ones: the changelog
// has their deletions, and the file drops the bucket as a whole. Most windows live shorter than
// rows wait for the file, so their rows would be most of what waits.
func (db *DB) forgetDropped() {
	if len(db.dropped) == 0 {
		return
	}
	for _, b := range db.dropped {
		if b.id.windowed && b.allAbsent() {
			b.forgetRows()
		}
	}
	clear(db.dropped)
	db.dropped = db.dropped[:0]
	db.dirty = slices.DeleteFunc(db.dirty, func(b *bucket) bool {
		b.waits = len(b.dirty) > 0
		return !b.waits
	})
}

// allAbsent tells that the rows in memory say of every key that there is none.
func (b *bucket) allAbsent() bool {
	absent := true
	b.each(func(_ uint32, r *row) { absent = absent && !r.pending && r.known && r.absent })
	return absent
}

// forgetRows takes all rows out of memory, also deletions that the file does not have yet.
func (b *bucket) forgetRows() {
	db := b.db
	b.each(func(_ uint32, r *row) {
		if r.dirty {
			db.dirtyBytes -= r.key.len() + r.val.len() + rowOverhead
		}
		if r.pending {
			db.pendingBytes -= r.key.len() + r.next.len() + rowOverhead
		}
		db.cacheBytes -= r.key.len() + r.val.len() + rowOverhead
	})
	b.table, b.pending, b.dirty = table{}, nil, nil
	b.unindex()
}
