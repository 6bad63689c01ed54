package state

import (
	"bytes"
	"hash/maphash"
)

// row is one key of a bucket in memory: its committed value and, until the next commit, its
// uncommitted one. It has no pointers, so that the collector has nothing to look at in a bucket but
// its pieces; what it refers to is in the bytes of its table.
type row struct {
	key  held
	val  held   // committed value; meaningful when known and not absent
	next held   // uncommitted value; meaningful when pending and not deleted
	hash uint32 // of the key
	gen  uint32 // flush generation of the last use, for eviction
	// known: val and absent say what is committed. A blind Put leaves it false.
	known bool
	// absent: there is no committed row of this key.
	absent bool
	// pending: an uncommitted change exists (the row is in bucket.pending).
	pending bool
	// deleted: the uncommitted change is a deletion.
	deleted bool
	// dirty: committed but not in the file yet (the row is in bucket.dirty).
	dirty bool
	// there: the row was not removed.
	there bool
	// checked: the visible value is one that a GetChecked was content with.
	checked bool
}

// unborn tells that no commit knows of the row, nor the file.
func (r *row) unborn() bool { return r.known && r.absent && !r.dirty }

// held is a slice of the bytes of a table.
type held struct {
	piece uint32
	at    uint16
	room  uint32
	size  uint32
}

// len is the size of the slice.
func (h held) len() int64 { return int64(h.size) }

// table is the rows of a bucket by key. Rows are told by number, which they have until removed.
type table struct {
	// index finds rows, by open addressing: hash of the key, number of the row and 1; 0 is free.
	index []uint64
	// rows are in groups of rowGroup; only the first one may be shorter, and then moves as it grows.
	rows [][]row
	// spare are the numbers of removed rows, used how many have been given out.
	spare []uint32
	used  uint32
	// pieces hold the bytes of rows. Nothing in them is written twice while somebody may look.
	pieces [][]byte
	// total are the bytes in pieces, lost those that no row refers to any more.
	total, lost int64
}

const (
	rowGroup = 128
	// pieceLeast and pieceMost bound the length of a piece; a longer slice has one of its own.
	pieceLeast = 256
	pieceMost  = 32 << 10
	// lostLeast is how much may be lost before the bytes are put together anew.
	lostLeast = 64 << 10
)

var hashSeed = maphash.MakeSeed()

// len is how many rows there are.
func (t *table) len() int { return int(t.used) - len(t.spare) }

// row returns a row by its number. It is valid until the next one is added.
func (t *table) row(n uint32) *row { return &t.rows[n/rowGroup][n%rowGroup] }

// bytes returns what a row refers to. Never nil.
func (t *table) bytes(h held) []byte {
	if h.size == 0 {
		return []byte{}
	}
	end := int(h.at) + int(h.size)
	return t.pieces[h.piece][h.at:end:end]
}

// keyOf returns the key of a row.
func (t *table) keyOf(n uint32) []byte { return t.bytes(t.row(n).key) }

// find returns the number of the row of a key.
func (t *table) find(key []byte) (n uint32, ok bool) {
	if len(t.index) == 0 {
		return 0, false
	}
	hash := uint32(maphash.Bytes(hashSeed, key))
	mask := uint32(len(t.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := t.index[i]
		if e == 0 {
			return 0, false
		}
		if n := uint32(e) - 1; uint32(e>>32) == hash && bytes.Equal(t.keyOf(n), key) {
			return n, true
		}
	}
}

// add makes a row of a key that has none.
func (t *table) add(key []byte) uint32 {
	if 4*(t.len()+1) > 3*len(t.index) {
		t.grow()
	}
	var n uint32
	if last := len(t.spare) - 1; last >= 0 {
		n, t.spare = t.spare[last], t.spare[:last]
	} else {
		n = t.used
		t.used++
		group := int(n / rowGroup)
		switch {
		case group == 0 && n == 0:
			t.rows = append(t.rows[:0], make([]row, 1, 4))
		case group == 0 && int(n) == len(t.rows[0]):
			t.rows[0] = append(t.rows[0], row{})
		case group == len(t.rows):
			t.rows = append(t.rows, make([]row, rowGroup))
		}
	}
	r := t.row(n)
	*r = row{hash: uint32(maphash.Bytes(hashSeed, key)), there: true}
	t.set(&r.key, key)
	t.enter(r.hash, n)
	return n
}

// enter puts a row into the index, which has room.
func (t *table) enter(hash, n uint32) {
	mask := uint32(len(t.index) - 1)
	i := hash & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = uint64(hash)<<32 | uint64(n+1)
}

// grow doubles the index.
func (t *table) grow() {
	old := t.index
	t.index = make([]uint64, max(8, 2*len(old)))
	for _, e := range old {
		if e != 0 {
			t.enter(uint32(e>>32), uint32(e)-1)
		}
	}
}

// remove takes a row out; those behind it in the index move up.
func (t *table) remove(n uint32) {
	r := t.row(n)
	mask := uint32(len(t.index) - 1)
	i := r.hash & mask
	for uint32(t.index[i]) != n+1 {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.index[j] != 0; j = (j + 1) & mask {
		home := uint32(t.index[j]>>32) & mask
		if (j-home)&mask >= (j-i)&mask {
			t.index[i] = t.index[j]
			i = j
		}
	}
	t.index[i] = 0
	t.lost += int64(r.key.room) + int64(r.val.room) + int64(r.next.room)
	*r = row{}
	t.spare = append(t.spare, n)
}

// each calls fn with the number of every row, in no order that means anything. fn may remove it.
func (t *table) each(fn func(n uint32, r *row)) {
	for n := range t.used {
		if r := t.row(n); r.there {
			fn(n, r)
		}
	}
}

// set makes h a copy of value, in its room if it fits. What has outgrown its room grows on.
func (t *table) set(h *held, value []byte) {
	if room := len(value); room > int(h.room) {
		if h.room > 0 {
			room += room / 4
		}
		t.lost += int64(h.room)
		*h = t.room(room)
	}
	h.size = uint32(len(value))
	copy(t.bytes(*h), value)
}

// room returns room for size bytes.
func (t *table) room(size int) held {
	size = (size + 7) &^ 7
	last := len(t.pieces) - 1
	if last < 0 || len(t.pieces[last])+size > cap(t.pieces[last]) {
		length := pieceLeast
		if last >= 0 {
			length = min(2*cap(t.pieces[last]), pieceMost)
		}
		t.pieces = append(t.pieces, make([]byte, 0, max(length, size)))
		t.total += int64(max(length, size))
		last++
	}
	p := t.pieces[last]
	h := held{piece: uint32(last), at: uint16(len(p)), room: uint32(size)}
	t.pieces[last] = p[:len(p)+size]
	return h
}

// tidy puts the bytes of rows together anew when most of them are lost. Slices that were handed out
// stay as they are.
func (t *table) tidy() {
	if t.lost < lostLeast || 2*t.lost < t.total {
		return
	}
	old := table{pieces: t.pieces}
	t.pieces, t.total, t.lost = nil, 0, 0
	t.each(func(_ uint32, r *row) {
		for _, h := range []*held{&r.key, &r.val, &r.next} {
			b := old.bytes(*h)
			*h = held{}
			if len(b) > 0 {
				t.set(h, b)
			}
		}
	})
}
