package offsets

import (
	"encoding/binary"
	"fmt"
)

// reader takes fields from the front of b. After the first fault every read gives zero values and
// err stays set, so that a decoder checks once. Lengths are checked before anything is allocated.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s with %d bytes left", ErrMalformed, what, len(r.b))
	}
	r.b = nil
}

func (r *reader) take(n int, what string) []byte {
	if n < 0 || n > len(r.b) {
		r.fail(what)
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) int16() int16 {
	if p := r.take(2, "int16"); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (r *reader) int32() int32 {
	if p := r.take(4, "int32"); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

func (r *reader) int64() int64 {
	if p := r.take(8, "int64"); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<31-1 {
		r.fail("varint")
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// length reads the length of a string: -1 is null.
func (r *reader) length(compact bool) int {
	if compact {
		return r.uvarint() - 1
	}
	return int(r.int16())
}

func (r *reader) string(compact bool) string {
	n := r.length(compact)
	if n < 0 {
		r.fail("null string")
		return ""
	}
	return string(r.take(n, "string"))
}

func (r *reader) nullableString(compact bool) *string {
	n := r.length(compact)
	if n < 0 {
		return nil
	}
	s := string(r.take(n, "string"))
	return &s
}

// bytes returns a copy; null is read as empty, as Kafka writes neither.
func (r *reader) bytes(compact bool) []byte {
	n := 0
	if compact {
		n = r.uvarint() - 1
	} else {
		n = int(r.int32())
	}
	if n < 0 {
		return nil
	}
	return append([]byte(nil), r.take(n, "bytes")...)
}

// count reads the length of an array whose elements take at least least bytes each.
func (r *reader) count(compact bool, least int) int {
	n := 0
	if compact {
		n = r.uvarint() - 1
	} else {
		n = int(r.int32())
	}
	if n < 0 {
		return 0
	}
	if n > len(r.b)/least {
		r.fail("array")
		return 0
	}
	return n
}

// tags skips tagged fields, handing each to fn if fn is not nil.
func (r *reader) tags(fn func(tag int, value []byte)) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag := r.uvarint()
		value := r.take(r.uvarint(), "tagged field")
		if fn != nil && r.err == nil {
			fn(tag, value)
		}
	}
}
