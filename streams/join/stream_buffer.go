package join

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/state"
)

// buffer keeps the records of both sides that may still be joined. Everything is read by exact
// key, so neither many keys nor many records of one key make a record slow.
type buffer struct {
	all state.Windows
	g   *geometry
	// open are the segments that hold rows, ascending by start.
	segments []segment
	key      []byte // scratch
	counts   []byte // scratch
}

// segment is one bucket.
type segment struct {
	start int64
	rows  state.Store
}

// entry names one kept record.
type entry struct {
	side int
	key  []byte
	ts   int64
	n    uint32 // counts the records of its side, key and slot
}

// match is an entry that was found.
type match struct{ entry }

// open finds the segments of a restored task.
func (b *buffer) open() error {
	starts, err := b.all.Starts()
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	for _, start := range starts {
		b.segments = append(b.segments, segment{start, b.all.Window(start)})
	}
	return nil
}

// segment returns the bucket of ts; nil if there is none and make is false.
func (b *buffer) segment(ts int64, make bool) state.Store {
	start := floorTo(ts, b.g.segment)
	i, ok := slices.BinarySearchFunc(b.segments, start, func(s segment, start int64) int {
		switch {
		case s.start < start:
			return -1
		case s.start > start:
			return 1
		}
		return 0
	})
	if ok {
		return b.segments[i].rows
	}
	if !make {
		return nil
	}
	s := segment{start, b.all.Window(start)}
	b.segments = slices.Insert(b.segments, i, s)
	return s.rows
}

// drop removes the segments whose records are all closed at s.
func (b *buffer) drop(s int64) error {
	n := 0
	for n < len(b.segments) {
		last := b.segments[n].start + b.g.segment - 1
		if s < max(b.g.due(left, last), b.g.due(right, last)) {
			break
		}
		if err := b.all.Drop(b.segments[n].start); err != nil {
			return fmt.Errorf("drop segment %d: %w", b.segments[n].start, err)
		}
		n++
	}
	if n > 0 {
		b.segments = append(b.segments[:0], b.segments[n:]...)
	}
	return nil
}

// headKey is the key of the row that counts the records of a key and slot.
func (b *buffer) headKey(key []byte, ts int64) []byte {
	b.key = appendKey(b.key[:0], key)
	b.key = appendTime(b.key, floorTo(ts, b.g.slot))
	return b.key
}

// entryKey is the key of a record's row.
func (b *buffer) entryKey(e entry) []byte {
	b.key = append(b.headKey(e.key, e.ts), byte(e.side))
	b.key = binary.BigEndian.AppendUint32(b.key, e.n)
	return b.key
}

// head reads how many records of each side a slot has.
func (b *buffer) head(rows state.Store, key []byte, ts int64) (n [2]uint32, err error) {
	row, ok, err := rows.Get(b.headKey(key, ts))
	if err != nil || !ok {
		return n, err
	}
	r := fields.Reader{Left: row}
	n[left], n[right] = uint32(r.Uvarint()), uint32(r.Uvarint())
	if !r.Whole() {
		return n, fmt.Errorf("read counts of a slot: %w", errRow)
	}
	return n, nil
}

// add keeps a record.
func (b *buffer) add(side int, key []byte, ts int64, row []byte) (entry, error) {
	rows := b.segment(ts, true)
	n, err := b.head(rows, key, ts)
	if err != nil {
		return entry{}, err
	}
	e := entry{side: side, key: key, ts: ts, n: n[side]}
	n[side]++
	b.counts = binary.AppendUvarint(b.counts[:0], uint64(n[left]))
	b.counts = binary.AppendUvarint(b.counts, uint64(n[right]))
	if err := rows.Put(b.headKey(key, ts), b.counts); err != nil {
		return entry{}, fmt.Errorf("keep record: %w", err)
	}
	return e, b.put(e, row)
}

// put writes the row of a record.
func (b *buffer) put(e entry, row []byte) error {
	if err := b.segment(e.ts, true).Put(b.entryKey(e), row); err != nil {
		return fmt.Errorf("keep record: %w", err)
	}
	return nil
}

// get reads the row of a record. It is valid until the next use of the stores.
func (b *buffer) get(e entry) (row []byte, ok bool, err error) {
	rows := b.segment(e.ts, false)
	if rows == nil {
		return nil, false, nil
	}
	if row, ok, err = rows.Get(b.entryKey(e)); err != nil {
		return nil, false, fmt.Errorf("read kept record: %w", err)
	}
	return row, ok, nil
}

// find appends the records of a side and key with from <= ts <= to, by timestamp and then in the
// order they came.
func (b *buffer) find(found []match, side int, key []byte, from, to int64) ([]match, error) {
	for i := range b.segments {
		s := &b.segments[i]
		first := max(floorTo(from, b.g.slot), s.start)
		for slot := first; slot <= to && slot < s.start+b.g.segment; slot += b.g.slot {
			var err error
			if found, err = b.slot(found, s.rows, side, key, slot, from, to); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// slot is find for one slot.
func (b *buffer) slot(found []match, rows state.Store, side int, key []byte,
	slot, from, to int64) ([]match, error) {
	n, err := b.head(rows, key, slot)
	if err != nil {
		return nil, err
	}
	begin := len(found)
	sorted := true
	for i := range n[side] {
		e := entry{side: side, key: key, ts: slot, n: i}
		row, ok, err := rows.Get(b.entryKey(e))
		if err != nil {
			return nil, fmt.Errorf("read kept record: %w", err)
		}
		if !ok {
			return nil, fmt.Errorf("record %d of a slot is missing: %w", i, errRow)
		}
		if _, e.ts, err = rowTime(row); err != nil {
			return nil, err
		}
		if e.ts < from || e.ts > to {
			continue
		}
		sorted = sorted && (len(found) == begin || found[len(found)-1].ts <= e.ts)
		found = append(found, match{e})
	}
	if !sorted {
		slices.SortStableFunc(found[begin:], func(x, y match) int {
			switch {
			case x.ts < y.ts:
				return -1
			case x.ts > y.ts:
				return 1
			}
			return 0
		})
	}
	return found, nil
}
