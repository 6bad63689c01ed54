package aggregate

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/millstream-io/millstream/streams/internal/fields"
)

// entry is one value that a first, last, topk or collect keeps.
type entry struct {
	ts    int64 // of its record
	order int64 // of its record among all events of the task
	value Value
	shown Value // topk: what is in the result
}

// entries are the values kept by one field, in the order of the result.
type entries []entry

// compare orders entries: first and last by time or by arrival, collect by time and arrival,
// topk by falling value, then time, then what is shown. Rows of a table have no arrival (order is
// 0 for all): of the same time the one with the smaller bytes comes first, so that the first and
// the last of several are the two ends of one order.
func (f *Field) compareEntries(a, b *entry) (int, error) {
	byTime := cmp.Or(cmp.Compare(a.ts, b.ts), cmp.Compare(a.order, b.order))
	switch {
	case f.Func == TopK:
		c, err := compare(b.value, a.value)
		if c != 0 || err != nil {
			return c, err
		}
		return cmp.Or(cmp.Compare(a.ts, b.ts), bytes.Compare(a.shown.appendIdentity(nil),
			b.shown.appendIdentity(nil)), cmp.Compare(a.order, b.order)), nil
	case (f.Func == First || f.Func == Last) && f.ByOffset:
		byTime = cmp.Compare(a.order, b.order)
	}
	if byTime == 0 && a.order == 0 {
		byTime = bytes.Compare(a.value.appendIdentity(nil), b.value.appendIdentity(nil))
	}
	if f.Func == Last {
		byTime = -byTime
	}
	return byTime, nil
}

// keep is how many entries a field keeps.
func (f *Field) keep() int {
	if f.Func == First || f.Func == Last {
		return 1
	}
	return f.Limit
}

// insert puts e in its place and drops what is one too many.
func (l *entries) insert(f *Field, e entry) error {
	at := len(*l)
	for at > 0 {
		c, err := f.compareEntries(&(*l)[at-1], &e)
		if err != nil {
			return err
		}
		if c <= 0 {
			break
		}
		at--
	}
	if at >= f.keep() {
		return nil
	}
	*l = slices.Insert(*l, at, e)
	if len(*l) > f.keep() {
		*l = (*l)[:f.keep()]
	}
	return nil
}

// result is the value itself for first and last, a list for the others.
func (l entries) result(f *Field) Value {
	if f.Func == First || f.Func == Last {
		if len(l) == 0 {
			return Value{}
		}
		return l[0].value
	}
	list := []byte{'['}
	for i := range l {
		if i > 0 {
			list = append(list, ',')
		}
		list = l[i].show(f).AppendJSON(list)
	}
	return Value{Kind: JSON, Text: string(append(list, ']'))}
}

func (e *entry) show(f *Field) Value {
	if f.Func == TopK {
		return e.shown
	}
	return e.value
}

// size is what the values take in a row.
func (l entries) size() (n int) {
	for i := range l {
		n += len(l[i].value.Text) + len(l[i].shown.Text) + 16
	}
	return n
}

func (l entries) append(dst []byte, f *Field) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(l)))
	for i := range l {
		dst = l[i].append(dst, f)
	}
	return dst
}

func (e *entry) append(dst []byte, f *Field) []byte {
	dst = binary.AppendVarint(binary.AppendVarint(dst, e.ts), e.order)
	dst = e.value.appendBytes(dst)
	if f.Func == TopK {
		dst = e.shown.appendBytes(dst)
	}
	return dst
}

func (l *entries) read(r *fields.Reader, f *Field) {
	*l = (*l)[:0]
	for range r.Count(3) {
		*l = append(*l, readEntry(r, f))
	}
}

func readEntry(r *fields.Reader, f *Field) entry {
	e := entry{ts: r.Varint(), order: r.Varint(), value: readValue(r)}
	if f.Func == TopK {
		e.shown = readValue(r)
	}
	return e
}
