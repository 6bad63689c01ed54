package aggregate

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// Rows of sessions, sliding and count windows: key -> all of its spans, ascending. A span is a
// session, the records of one instant (sliding), or the records counted so far.
//
//	number of spans    uvarint
//	per span           start  varint
//	                   end - start  uvarint
//	                   largest timestamp - start  uvarint
//	                   bits: 1 the result was emitted
//	                   length of the accumulators  uvarint, then they

// span is one part of a row. Its accumulators stay encoded until they are needed.
type span struct {
	start, end int64
	ts         int64 // largest timestamp
	emitted    bool
	raw        []byte
}

func (s *span) window() operator.Window {
	return operator.Window{Start: s.start, End: s.end, Inclusive: true}
}

// spanRows are the rows of one store, one row at a time.
type spanRows struct {
	*folds
	rows  state.Store
	spans []span // of the row read last
	row   []byte // scratch of write
}

// get reads the row of key into spans. They alias the store until the next call on any store, and
// so are copied.
func (r *spanRows) get(key []byte) error {
	r.spans = r.spans[:0]
	row, ok, err := r.rows.Get(key)
	if err != nil {
		return fmt.Errorf("get row: %w", err)
	}
	if !ok {
		return nil
	}
	return r.parse(slices.Clone(row))
}

// parse reads a row into spans, which alias it.
func (r *spanRows) parse(row []byte) error {
	r.spans = r.spans[:0]
	f := fields.Reader{Left: row}
	for range f.Count(5) {
		s := span{start: f.Varint()}
		s.end = s.start + int64(f.Uvarint())
		s.ts = s.start + int64(f.Uvarint())
		s.emitted = f.Byte()&1 != 0
		s.raw = f.Bytes()
		r.spans = append(r.spans, s)
	}
	if !f.Whole() {
		return fmt.Errorf("decode %d bytes: %w", len(row), errRow)
	}
	return nil
}

// put writes spans as the row of key, or deletes it when there are none.
func (r *spanRows) put(key []byte) error {
	if len(r.spans) == 0 {
		if err := r.rows.Delete(key); err != nil {
			return fmt.Errorf("delete row: %w", err)
		}
		return nil
	}
	b := binary.AppendUvarint(r.row[:0], uint64(len(r.spans)))
	for i := range r.spans {
		s := &r.spans[i]
		b = binary.AppendVarint(b, s.start)
		b = binary.AppendUvarint(b, uint64(s.end-s.start))
		b = binary.AppendUvarint(b, uint64(s.ts-s.start))
		var bits byte
		if s.emitted {
			bits = 1
		}
		b = binary.AppendUvarint(append(b, bits), uint64(len(s.raw)))
		b = append(b, s.raw...)
	}
	r.row = b
	if err := r.rows.Put(key, b); err != nil {
		return fmt.Errorf("put row: %w", err)
	}
	return nil
}
