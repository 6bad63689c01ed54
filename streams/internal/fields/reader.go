package fields

import "encoding/binary"

// Reader reads fields from the front of Left. It is for one goroutine.
type Reader struct {
	// Left are the bytes not read yet; empty after a fault.
	Left   []byte
	failed bool
}

// Whole reports whether every field read was there and nothing is left.
func (r *Reader) Whole() bool { return !r.failed && len(r.Left) == 0 }

// Failed reports whether a field was not there, or Fail was called.
func (r *Reader) Failed() bool { return r.failed }

// Fail makes all further reads give zero values: what was read makes no sense.
func (r *Reader) Fail() { r.failed, r.Left = true, nil }

// Take reads the next n bytes; they alias what is read.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.Left)) {
		r.Fail()
		return nil
	}
	v := r.Left[:n:n]
	r.Left = r.Left[n:]
	return v
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Fixed64 reads 8 bytes, big-endian.
func (r *Reader) Fixed64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Left)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// Varint reads a zig-zag varint.
func (r *Reader) Varint() int64 {
	u := r.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Bytes reads bytes behind their length, an unsigned varint; they alias what is read.
func (r *Reader) Bytes() []byte { return r.Take(r.Uvarint()) }

// NullableBytes reads bytes behind their length, a zig-zag varint in which -1 is null (nil).
func (r *Reader) NullableBytes() []byte {
	n := r.Varint()
	switch {
	case n == -1 || r.failed:
		return nil
	case n < 0:
		r.Fail()
		return nil
	}
	return r.Take(uint64(n))
}

// Count reads the length of a list, an unsigned varint, whose items take at least size bytes each.
func (r *Reader) Count(size int) int { return r.fits(r.Uvarint(), size) }

// SignedCount is Count for a length written as a zig-zag varint.
func (r *Reader) SignedCount(size int) int { return r.fits(uint64(r.Varint()), size) }

func (r *Reader) fits(n uint64, size int) int {
	if n > uint64(len(r.Left)/size) {
		r.Fail()
		return 0
	}
	return int(n)
}
