package protocol

import "encoding/binary"

// Reader reads primitives from the front of Src. After the first value that is not there every
// read returns a zero value and Ok reports false.
type Reader struct {
	// Src is what is left to read.
	Src []byte
	bad bool
}

// Ok reports whether everything read so far was there.
func (r *Reader) Ok() bool { return !r.bad }

// fail makes the reader return zero values from now on.
func (r *Reader) fail() {
	r.bad = true
	r.Src = nil
}

// Span returns the next n bytes, aliasing Src.
func (r *Reader) Span(n int) []byte {
	if n < 0 || n > len(r.Src) {
		r.fail()
		return nil
	}
	s := r.Src[:n:n]
	r.Src = r.Src[n:]
	return s
}

// Int8 reads one byte.
func (r *Reader) Int8() int8 {
	if s := r.Span(1); s != nil {
		return int8(s[0])
	}
	return 0
}

// Int16 reads a big-endian int16.
func (r *Reader) Int16() int16 {
	if s := r.Span(2); s != nil {
		return int16(binary.BigEndian.Uint16(s))
	}
	return 0
}

// Int32 reads a big-endian int32.
func (r *Reader) Int32() int32 {
	if s := r.Span(4); s != nil {
		return int32(binary.BigEndian.Uint32(s))
	}
	return 0
}

// Int64 reads a big-endian int64.
func (r *Reader) Int64() int64 {
	if s := r.Span(8); s != nil {
		return int64(binary.BigEndian.Uint64(s))
	}
	return 0
}

// UUID reads 16 bytes.
func (r *Reader) UUID() (id [16]byte) {
	copy(id[:], r.Span(16))
	return id
}

// Uvarint reads an unsigned varint of at most 32 bits, as KIP-482 uses for lengths and tags.
func (r *Reader) Uvarint() uint32 {
	var v uint64
	for i := range 5 {
		if i >= len(r.Src) {
			break
		}
		b := r.Src[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			r.Src = r.Src[i+1:]
			return uint32(v)
		}
	}
	r.fail()
	return 0
}

// length reads the length of a string (wide false) or of bytes (wide true): -1 is null.
func (r *Reader) length(flexible, wide bool) int {
	switch {
	case flexible:
		return int(r.Uvarint()) - 1
	case wide:
		return int(r.Int32())
	default:
		return int(r.Int16())
	}
}

// NullableString reads a string that may be null; null is nil. The result aliases Src.
func (r *Reader) NullableString(flexible bool) []byte {
	n := r.length(flexible, false)
	if n < 0 || r.bad {
		return nil
	}
	return r.Span(n)
}

// String reads a string that must not be null. The result aliases Src.
func (r *Reader) String(flexible bool) []byte {
	n := r.length(flexible, false)
	if r.bad {
		return nil
	}
	return r.Span(n)
}

// NullableBytes reads bytes that may be null; null is nil. The result aliases Src.
func (r *Reader) NullableBytes(flexible bool) []byte {
	n := r.length(flexible, true)
	if n < 0 || r.bad {
		return nil
	}
	return r.Span(n)
}

// ArrayLen reads the length of an array whose elements take minElement bytes at least. Null and
// negative lengths are 0. A length that cannot fit in what is left fails the reader.
func (r *Reader) ArrayLen(flexible bool, minElement int) int {
	n := r.length(flexible, true)
	if n < 0 || r.bad {
		return 0
	}
	if n > len(r.Src)/minElement {
		r.fail()
		return 0
	}
	return n
}

// SkipTags skips a tag buffer (KIP-482).
func (r *Reader) SkipTags() {
	if len(r.Src) > 0 && r.Src[0] == 0 {
		r.Src = r.Src[1:]
		return
	}
	for n := r.Uvarint(); n > 0 && !r.bad; n-- {
		r.Uvarint()
		r.Span(int(r.Uvarint()))
	}
}
