package record

import (
	"encoding/binary"
	"math/bits"
)

// AppendVarint appends v as a zig-zag varint, the encoding of all numbers inside a record.
func AppendVarint(dst []byte, v int64) []byte {
	return binary.AppendUvarint(dst, uint64(v)<<1^uint64(v>>63))
}

// ReadVarint reads a zig-zag varint from the front of b. n is the number of bytes read, 0 when b
// ends too early or the number passes 64 bits.
func ReadVarint(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 { // by far the most common
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	return readLongVarint(b)
}

func readLongVarint(b []byte) (v int64, n int) {
	if len(b) > 1 && b[1] < 0x80 {
		u := uint64(b[0]&0x7f) | uint64(b[1])<<7
		return int64(u>>1) ^ -int64(u&1), 2
	}
	u, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0
	}
	return int64(u>>1) ^ -int64(u&1), n
}

// AppendUvarint appends v as an unsigned varint, as the protocol's compact types use.
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// ReadUvarint reads an unsigned varint from the front of b. n is 0 when b ends too early or the
// number passes 64 bits.
func ReadUvarint(b []byte) (v uint64, n int) {
	v, n = binary.Uvarint(b)
	if n <= 0 {
		return 0, 0
	}
	return v, n
}

// VarintSize returns the number of bytes AppendVarint appends for v, 1 to 10.
func VarintSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
