package state

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxKey is the longest key of a row in bytes; bbolt allows 32768 with our mark.
const MaxKey = 32767

// row is one key of a bucket in memory: its committed value and, until the next commit, its
// uncommitted one.
type row struct {
	key  string
	val  []byte // committed value; meaningful when known and not absent
	next []byte // uncommitted value; meaningful when pending and not deleted
	gen  uint32 // flush generation of the last use, for eviction
	// known: val and absent say what is committed. A blind Put leaves it false.
	known bool
	// absent: there is no committed row of this key.
	absent bool
	// pending: an uncommitted change exists (the row is on DB.pending).
	pending bool
	// deleted: the uncommitted change is a deletion.
	deleted bool
	// dirty: committed but not in the file yet (the row is on DB.dirty).
	dirty bool
}

// bucket is the memory side of one ordered set of rows.
type bucket struct {
	db   *DB
	id   bucketID
	seed uint32 // of the checksums of its rows in the file
	rows map[string]*row
	// bytes are those of its committed rows, as far as they are known: all of them without a file.
	bytes int64
	// runs hold the rows, each of them in key order and at least twice as long as the next one,
	// added the rows that are in none of them yet. Both are only kept once the bucket has been
	// scanned (indexed). Many runs make scans and new rows in turns cheap: a row is merged into a
	// longer run a logarithmic number of times.
	runs    [][]*row
	added   []*row
	indexed bool
	// onDisk: the file may hold rows of this bucket.
	onDisk bool
	// dropPending, dropDirty: a Drop since the last commit, since the last flush.
	dropPending, dropDirty bool
}

var _ Store = (*bucket)(nil)

// Get implements Store.
func (b *bucket) Get(key []byte) ([]byte, bool, error) {
	if b.db.closed {
		return nil, false, ErrClosed
	}
	r := b.rows[string(key)]
	if r == nil {
		if !b.onDisk {
			return nil, false, nil
		}
		r = b.insert(key)
	}
	r.gen = b.db.gen
	switch {
	case r.pending && r.deleted:
		return nil, false, nil
	case r.pending:
		return r.next, true, nil
	}
	if !r.known {
		if err := b.load(r); err != nil {
			return nil, false, err
		}
	}
	if r.absent {
		return nil, false, nil
	}
	return r.val, true, nil
}

// Put implements Store.
func (b *bucket) Put(key, value []byte) error {
	r, err := b.touch(key)
	if err != nil {
		return err
	}
	b.db.pendingBytes += int64(len(value) - len(r.next))
	r.next = append(r.next[:0], value...)
	r.deleted = false
	return nil
}

// Delete implements Store.
func (b *bucket) Delete(key []byte) error {
	r := b.rows[string(key)]
	if r == nil && !b.onDisk {
		return nil
	}
	if r != nil && !r.pending && r.known && r.absent {
		return nil
	}
	r, err := b.touch(key)
	if err != nil {
		return err
	}
	b.db.pendingBytes -= int64(len(r.next))
	r.next = r.next[:0]
	r.deleted = true
	return nil
}

// touch returns the row of key, marked as changed.
func (b *bucket) touch(key []byte) (*row, error) {
	if b.db.closed {
		return nil, ErrClosed
	}
	if len(key) > MaxKey {
		return nil, fmt.Errorf("write to %s: key of %d bytes: %w", b.id.name, len(key), ErrKeyTooLong)
	}
	r := b.rows[string(key)]
	if r == nil {
		r = b.insert(key)
	}
	r.gen = b.db.gen
	if !r.pending {
		r.pending = true
		r.next = r.next[:0]
		b.db.pending = append(b.db.pending, pendingRow{b, r})
		b.db.pendingBytes += int64(len(r.key)) + rowOverhead
	}
	return r, nil
}

// insert adds a row that knows nothing yet.
func (b *bucket) insert(key []byte) *row {
	r := b.db.newRow()
	r.key = string(key)
	if !b.onDisk {
		r.known, r.absent = true, true
	}
	b.rows[r.key] = r
	b.db.cacheBytes += int64(len(r.key)) + rowOverhead
	if b.indexed {
		b.added = append(b.added, r)
	}
	return r
}

// load reads the committed value of a row from the file.
func (b *bucket) load(r *row) error {
	v, ok, err := b.db.fileGet(b, r.key)
	if err != nil {
		return err
	}
	r.known, r.absent = true, !ok
	r.val = append(r.val[:0], v...)
	b.db.cacheBytes += int64(len(v))
	return nil
}

// index brings the runs up to date with rows.
func (b *bucket) index() [][]*row {
	byKey := func(x, y *row) int { return strings.Compare(x.key, y.key) }
	if !b.indexed {
		b.indexed = true
		all := make([]*row, 0, len(b.rows))
		for _, r := range b.rows {
			all = append(all, r)
		}
		slices.SortFunc(all, byKey)
		b.runs, b.added = append(b.runs[:0], all), b.added[:0]
		return b.runs
	}
	if len(b.added) == 0 {
		return b.runs
	}
	slices.SortFunc(b.added, byKey)
	n := len(b.runs) - 1
	if last := b.runs[n]; len(last) == 0 || last[len(last)-1].key < b.added[0].key {
		b.runs[n] = append(last, b.added...)
	} else {
		b.runs = append(b.runs, slices.Clone(b.added))
	}
	b.added = b.added[:0]
	for n = len(b.runs) - 1; n > 0 && len(b.runs[n-1]) < 2*len(b.runs[n]); n-- {
		b.runs[n-1] = mergeRows(b.runs[n-1], b.runs[n])
		b.runs = b.runs[:n]
	}
	return b.runs
}

// from returns what is left of the runs from a key on, without empty ones.
func (b *bucket) from(key []byte) [][]*row {
	var heads [][]*row
	for _, run := range b.index() {
		at, _ := slices.BinarySearchFunc(run, key, func(r *row, k []byte) int {
			return strings.Compare(r.key, string(k))
		})
		if at < len(run) {
			heads = append(heads, run[at:])
		}
	}
	return heads
}

// least returns the run that begins with the least key, -1 if there is none.
func least(heads [][]*row) int {
	best := -1
	for i, h := range heads {
		if len(h) > 0 && (best < 0 || h[0].key < heads[best][0].key) {
			best = i
		}
	}
	return best
}

// mergeRows merges two sorted runs without common keys.
func mergeRows(x, y []*row) []*row {
	out := make([]*row, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		if x[0].key < y[0].key {
			out, x = append(out, x[0]), x[1:]
		} else {
			out, y = append(out, y[0]), y[1:]
		}
	}
	return append(append(out, x...), y...)
}

// unindex forgets the order; the next scan sorts again.
func (b *bucket) unindex() {
	b.indexed, b.runs, b.added = false, nil, nil
}

// visible returns the value a reader sees, ok false when there is none. decided is false when only
// the file knows.
func (r *row) visible() (value []byte, ok, decided bool) {
	switch {
	case r.pending:
		return r.next, !r.deleted, true
	case r.known:
		return r.val, !r.absent, true
	}
	return nil, false, false
}

// Scan implements Store. It merges the rows in memory with a cursor over the file; at equal keys
// memory is the newer one.
func (b *bucket) Scan(from, to []byte, fn func(key, value []byte) error) error {
	if b.db.closed {
		return ErrClosed
	}
	cur, err := b.db.fileCursor(b)
	if err != nil {
		return err
	}
	err = b.scan(cur, from, to, fn)
	if err == ErrStop {
		err = nil
	}
	return cmp.Or(err, b.db.sick()) // a damaged file looks like one that ends
}

func (b *bucket) scan(cur cursor, from, to []byte, fn func(key, value []byte) error) error {
	heads := b.from(from)
	fk, fv := cur.seek(from)
	var key []byte
	for {
		var value []byte
		ok := true
		var mem []*row
		first := least(heads)
		if first >= 0 {
			mem = heads[first]
		}
		switch order := compareHeads(mem, fk); {
		case order == noHead:
			return nil
		case order > 0: // the file's row is first
			key, value = append(key[:0], fk...), fv
			fk, fv = cur.next()
		default:
			key = append(key[:0], mem[0].key...)
			var decided bool
			value, ok, decided = mem[0].visible()
			if order == 0 {
				if !decided {
					value, ok = fv, true
				}
				fk, fv = cur.next()
			}
			heads[first] = mem[1:]
		}
		if to != nil && bytes.Compare(key, to) >= 0 {
			return nil
		}
		if !ok {
			continue
		}
		if err := fn(key, value); err != nil {
			return err
		}
	}
}

// noHead is what compareHeads returns when both sides are at their end.
const noHead = 2

// compareHeads compares the first row in memory with the key under the file's cursor: -1 or 0
// memory (also when equal), 1 the file, noHead neither.
func compareHeads(mem []*row, fileKey []byte) int {
	switch {
	case len(mem) == 0 && fileKey == nil:
		return noHead
	case len(mem) == 0:
		return 1
	case fileKey == nil:
		return -1
	}
	return strings.Compare(mem[0].key, string(fileKey))
}
