package state

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// MaxKey is the longest key of a row in bytes; bbolt allows 32768 with our mark.
const MaxKey = 32767

// bucket is the memory side of one ordered set of rows.
type bucket struct {
	db   *DB
	id   bucketID
	seed uint32 // of the checksums of its rows in the file
	table
	// pending are its rows of L0 in the order of their first change, dirty those of L1.
	pending, dirty []uint32
	// changed and waits: it is in DB.pending, in DB.dirty.
	changed, waits bool
	// size are the bytes of its committed rows, as far as they are known: all of them without a
	// file.
	size int64
	// runs hold the rows, each of them in key order and at least twice as long as the next one,
	// added the rows that are in none of them yet. Both are only kept once the bucket has been
	// scanned (indexed). Many runs make scans and new rows in turns cheap: a row is merged into a
	// longer run a logarithmic number of times.
	runs    [][]uint32
	added   []uint32
	indexed bool
	// onDisk: the file may hold rows of this bucket.
	onDisk bool
	// dropPending, dropDirty: a Drop since the last commit, since the last flush.
	dropPending, dropDirty bool
}

var (
	_ Store   = (*bucket)(nil)
	_ Checker = (*bucket)(nil)
)

// Get implements Store.
func (b *bucket) Get(key []byte) ([]byte, bool, error) {
	_, value, ok, err := b.get(key)
	return value, ok, err
}

// GetChecked implements Checker.
func (b *bucket) GetChecked(key []byte, check func(key, value []byte) error) ([]byte, bool, error) {
	r, value, ok, err := b.get(key)
	if err != nil || !ok || r.checked {
		return value, ok, err
	}
	if err := check(key, value); err != nil {
		return nil, false, err
	}
	r.checked = true
	return value, true, nil
}

// get finds the visible value of a key, and its row if there is one.
func (b *bucket) get(key []byte) (*row, []byte, bool, error) {
	if b.db.closed {
		return nil, nil, false, ErrClosed
	}
	n, ok := b.find(key)
	if !ok {
		if !b.onDisk {
			return nil, nil, false, nil
		}
		n = b.insert(key)
	}
	r := b.row(n)
	r.gen = b.db.gen
	switch {
	case r.pending && r.deleted:
		return nil, nil, false, nil
	case r.pending:
		return r, b.bytes(r.next), true, nil
	}
	if !r.known {
		if err := b.load(r); err != nil {
			return nil, nil, false, err
		}
	}
	if r.absent {
		return nil, nil, false, nil
	}
	return r, b.bytes(r.val), true, nil
}

// Put implements Store.
func (b *bucket) Put(key, value []byte) error {
	r, err := b.touch(key)
	if err != nil {
		return err
	}
	b.db.pendingBytes += int64(len(value)) - r.next.len()
	b.set(&r.next, value)
	r.deleted, r.checked = false, false
	return nil
}

// Delete implements Store.
func (b *bucket) Delete(key []byte) error {
	n, ok := b.find(key)
	if !ok && !b.onDisk {
		return nil
	}
	if ok {
		if r := b.row(n); !r.pending && r.known && r.absent {
			return nil
		}
	}
	r, err := b.touch(key)
	if err != nil {
		return err
	}
	b.takeOut(r)
	return nil
}

// takeOut makes the uncommitted change of a row, which is pending, a deletion.
func (b *bucket) takeOut(r *row) {
	b.db.pendingBytes -= r.next.len()
	r.next.size = 0
	r.deleted = true
}

// touch returns the row of key, marked as changed.
func (b *bucket) touch(key []byte) (*row, error) {
	if b.db.closed {
		return nil, ErrClosed
	}
	if len(key) > MaxKey {
		return nil, fmt.Errorf("write to %s: key of %d bytes: %w", b.id.name, len(key), ErrKeyTooLong)
	}
	b.tidy()
	n, ok := b.find(key)
	if !ok {
		n = b.insert(key)
	}
	return b.change(n), nil
}

// change marks a row as changed.
func (b *bucket) change(n uint32) *row {
	r := b.row(n)
	r.gen = b.db.gen
	if r.pending {
		return r
	}
	r.pending = true
	r.next.size = 0
	b.pending = append(b.pending, n)
	if !b.changed {
		b.changed = true
		b.db.pending = append(b.db.pending, b)
	}
	b.db.pendingBytes += r.key.len() + rowOverhead
	return r
}

// insert adds a row that knows nothing yet.
func (b *bucket) insert(key []byte) uint32 {
	n := b.add(key)
	if !b.onDisk {
		r := b.row(n)
		r.known, r.absent = true, true
	}
	b.db.cacheBytes += int64(len(key)) + rowOverhead
	if b.indexed {
		b.added = append(b.added, n)
	}
	return n
}

// load reads the committed value of a row from the file.
func (b *bucket) load(r *row) error {
	v, ok, err := b.db.fileGet(b, b.bytes(r.key))
	if err != nil {
		return err
	}
	r.known, r.absent, r.checked = true, !ok, false
	b.set(&r.val, v)
	b.db.cacheBytes += int64(len(v))
	return nil
}

// byKey compares rows by key.
func (b *bucket) byKey(x, y uint32) int { return bytes.Compare(b.keyOf(x), b.keyOf(y)) }

// order brings the runs up to date with the rows.
func (b *bucket) order() [][]uint32 {
	if !b.indexed {
		b.indexed = true
		all := make([]uint32, 0, b.len())
		b.each(func(n uint32, _ *row) { all = append(all, n) })
		slices.SortFunc(all, b.byKey)
		b.runs, b.added = append(b.runs[:0], all), b.added[:0]
		return b.runs
	}
	if len(b.added) == 0 {
		return b.runs
	}
	slices.SortFunc(b.added, b.byKey)
	n := len(b.runs) - 1
	if last := b.runs[n]; len(last) == 0 || b.byKey(last[len(last)-1], b.added[0]) < 0 {
		b.runs[n] = append(last, b.added...)
	} else {
		b.runs = append(b.runs, slices.Clone(b.added))
	}
	b.added = b.added[:0]
	for n = len(b.runs) - 1; n > 0 && len(b.runs[n-1]) < 2*len(b.runs[n]); n-- {
		b.runs[n-1] = b.merge(b.runs[n-1], b.runs[n])
		b.runs = b.runs[:n]
	}
	return b.runs
}

// from returns what is left of the runs from a key on, without empty ones.
func (b *bucket) from(key []byte) [][]uint32 {
	var heads [][]uint32
	for _, run := range b.order() {
		at, _ := slices.BinarySearchFunc(run, key, func(n uint32, k []byte) int {
			return bytes.Compare(b.keyOf(n), k)
		})
		if at < len(run) {
			heads = append(heads, run[at:])
		}
	}
	return heads
}

// least returns the run that begins with the least key, -1 if there is none.
func (b *bucket) least(heads [][]uint32) int {
	best := -1
	for i, h := range heads {
		if len(h) > 0 && (best < 0 || b.byKey(h[0], heads[best][0]) < 0) {
			best = i
		}
	}
	return best
}

// merge merges two sorted runs without common keys.
func (b *bucket) merge(x, y []uint32) []uint32 {
	out := make([]uint32, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		if b.byKey(x[0], y[0]) < 0 {
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
func (b *bucket) visible(r *row) (value []byte, ok, decided bool) {
	switch {
	case r.pending:
		return b.bytes(r.next), !r.deleted, true
	case r.known:
		return b.bytes(r.val), !r.absent, true
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
		var mem []uint32
		first := b.least(heads)
		if first >= 0 {
			mem = heads[first]
		}
		switch order := b.compareHeads(mem, fk); {
		case order == noHead:
			return nil
		case order > 0: // the file's row is first
			key, value = append(key[:0], fk...), fv
			fk, fv = cur.next()
		default:
			r := b.row(mem[0])
			key = append(key[:0], b.bytes(r.key)...)
			var decided bool
			value, ok, decided = b.visible(r)
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
func (b *bucket) compareHeads(mem []uint32, fileKey []byte) int {
	switch {
	case len(mem) == 0 && fileKey == nil:
		return noHead
	case len(mem) == 0:
		return 1
	case fileKey == nil:
		return -1
	}
	return bytes.Compare(b.keyOf(mem[0]), fileKey)
}
