package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// members are the rows of the values behind results.
type members struct {
	used  bool
	store state.Store   // without windows
	all   state.Windows // else
	// staged are rows to be written once a record was added to all of its windows: those of new
	// values, key is buf[from:to].
	staged []stagedMember
	buf    []byte
}

type stagedMember struct {
	rows     state.Store
	from, to int
}

// of returns the rows of a window.
func (m *members) of(start int64) state.Store {
	if m.store != nil {
		return m.store
	}
	return m.all.Window(start)
}

// countNew counts the values of a record that are new to their group and stages their rows.
func (a *aggregate) countNew(rec *operator.Record, x *target) error {
	m := &a.values
	rows := m.of(x.window.Start)
	for i := range a.fields {
		f := &a.fields[i]
		if !f.rows || a.args[i].value.Kind == Null {
			continue
		}
		if len(m.staged) == 0 {
			m.buf = m.buf[:0]
		}
		from := len(m.buf)
		m.buf = f.appendPlace(appendMember(m.buf, rec.Key, i), &a.args[i])
		_, ok, err := rows.Get(m.buf[from:])
		if err != nil {
			return fmt.Errorf("get value: %w", err)
		}
		if ok {
			m.buf = m.buf[:from]
			continue
		}
		if len(m.buf)-from > state.MaxKey {
			return tooLarge(f)
		}
		if err := a.accs[i].inc(1); err != nil {
			return err
		}
		m.staged = append(m.staged, stagedMember{rows, from, len(m.buf)})
	}
	return nil
}

// write writes what is staged.
func (m *members) write() error {
	for _, s := range m.staged {
		if err := s.rows.Put(m.buf[s.from:s.to], []byte{1}); err != nil {
			return fmt.Errorf("put value: %w", err)
		}
	}
	m.staged = m.staged[:0]
	return nil
}

// drop removes the values of a window.
func (m *members) drop(start int64) error {
	if !m.used {
		return nil
	}
	if err := m.all.Drop(start); err != nil {
		return fmt.Errorf("drop values of window %d: %w", start, err)
	}
	return nil
}

// forget removes the values of a group without windows.
func (m *members) forget(key []byte) error {
	if !m.used {
		return nil
	}
	var keys [][]byte
	prefix := state.AppendEscaped(nil, key)
	err := m.store.Scan(prefix, after(prefix), func(k, _ []byte) error {
		keys = append(keys, slices.Clone(k))
		return nil
	})
	for _, k := range keys {
		err = errors.Join(err, m.store.Delete(k))
	}
	if err != nil {
		return fmt.Errorf("forget values: %w", err)
	}
	return nil
}

// Rows of values of one group (the store <id>:values) have the key
//
//	key, escaped (state.AppendEscaped) | field, 1 byte | place of the value
//
// and tell how often the value is there. Places sort as the field's result wants them.

// appendMember appends the key of the rows of one field.
func appendMember(dst, key []byte, field int) []byte {
	return append(state.AppendEscaped(dst, key), byte(field))
}

// appendPlace appends where a value stands among those of its field.
func (f *Field) appendPlace(dst []byte, in *argument) []byte {
	switch f.Func {
	case Min:
		return appendOrdered(dst, in.value, 0)
	case Max:
		return appendOrdered(dst, in.value, 0xff)
	case TopK:
		dst = appendTime(appendOrdered(dst, in.value, 0xff), in.ts, 0)
		return in.shown.appendIdentity(dst)
	case Last:
		dst = appendTime(dst, in.ts, 0xff)
		at := len(dst)
		dst = state.AppendEscaped(dst, in.value.appendIdentity(nil))
		mask(dst[at:], 0xff)
		return dst
	case First, Collect:
		return in.value.appendIdentity(appendTime(dst, in.ts, 0))
	}
	return in.value.appendIdentity(dst)
}

// appendTime appends a time in byte order, reversed by a mask of 0xff.
func appendTime(dst []byte, ts int64, mask byte) []byte {
	return appendMasked(dst, uint64(ts)^1<<63, mask)
}

func appendMasked(dst []byte, x uint64, mask byte) []byte {
	if mask != 0 {
		x = ^x
	}
	return binary.BigEndian.AppendUint64(dst, x)
}

// appendOrdered appends a number or a string so that bytes compare as the values do, reversed by a
// flip of 0xff. No value's bytes are the beginning of another one's.
func appendOrdered(dst []byte, v Value, flip byte) []byte {
	if v.Kind == String {
		at := len(dst) + 1
		dst = state.AppendEscaped(append(dst, 's'^flip), []byte(v.Text))
		mask(dst[at:], flip)
		return dst
	}
	x := float(v)
	whole := v.Int // tells integers apart that are the same float
	if v.Kind == Float && math.Abs(x) < math.MaxInt64 {
		whole = int64(x)
	}
	if x == 0 {
		x = 0 // -0
	}
	bits := math.Float64bits(x)
	if bits>>63 == 1 {
		bits = ^bits
	} else {
		bits ^= 1 << 63
	}
	dst = appendMasked(append(dst, 'n'^flip), bits, flip)
	return appendMasked(dst, uint64(whole)^1<<63, flip)
}

// mask turns the order of what state.AppendEscaped wrote round, if by is 0xff.
func mask(b []byte, by byte) {
	for i := range b {
		b[i] ^= by
	}
}

// memberCount decodes how often a value is there; its entry begins at size.
func memberCount(row []byte) (uint64, int, error) {
	n, size := binary.Uvarint(row)
	if size <= 0 || n == 0 {
		return 0, 0, fmt.Errorf("decode count of a value: %w", errRow)
	}
	return n, size, nil
}

// after returns the first key behind all keys that begin with prefix, nil if there is none.
func after(prefix []byte) []byte {
	end := append([]byte{}, prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
