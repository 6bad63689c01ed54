package fields

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Varints by hand: zig-zag maps 0 -1 1 -2 to 0 1 2 3, seven bits a byte, low ones first.
func TestReaderReadsEachField(t *testing.T) {
	r := Reader{Left: []byte{
		7,                       // byte
		0, 0, 0, 0, 0, 0, 1, 44, // fixed64 300
		0xac, 0x02, // uvarint 300
		0x03,        // varint -2
		2, 'a', 'b', // bytes
		1,           // nullable: null
		0,           // nullable: empty
		4, 'c', 'd', // nullable "cd"
		2, 'x', 'y', // count of 2, items of one byte
		2, // signed count of 1
		'z', 'e',
	}}
	require.EqualValues(t, 7, r.Byte())
	require.EqualValues(t, 300, r.Fixed64())
	require.EqualValues(t, 300, r.Uvarint())
	require.EqualValues(t, -2, r.Varint())
	require.Equal(t, "ab", string(r.Bytes()))
	require.Nil(t, r.NullableBytes())
	require.Equal(t, []byte{}, r.NullableBytes())
	require.Equal(t, "cd", string(r.NullableBytes()))
	require.Equal(t, 2, r.Count(1))
	require.Equal(t, "xy", string(r.Take(2)))
	require.Equal(t, 1, r.SignedCount(2))
	require.False(t, r.Whole(), "two bytes are left")
	require.Equal(t, "ze", string(r.Take(2)))
	require.True(t, r.Whole())
}

func TestReaderBelievesNoLengthThatPassesTheEnd(t *testing.T) {
	const huge = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" // 2^64-1, or -2^63 as zig-zag
	for name, read := range map[string]func(*Reader) any{
		"take":         func(r *Reader) any { return r.Take(r.Uvarint()) },
		"bytes":        func(r *Reader) any { return r.Bytes() },
		"nullable":     func(r *Reader) any { return r.NullableBytes() },
		"count":        func(r *Reader) any { return make([]byte, r.Count(1)) },
		"signed count": func(r *Reader) any { return make([]byte, r.SignedCount(1)) },
	} {
		r := Reader{Left: []byte(huge + "abc")}
		require.Empty(t, read(&r), name)
		require.True(t, r.Failed(), name)
		require.Zero(t, r.Varint(), "%s: nothing is read after a fault", name)
		require.False(t, r.Whole(), name)
	}
	r := Reader{Left: []byte{1, 2, 3}}
	require.Zero(t, r.Fixed64())
	require.False(t, r.Whole(), "cut short is not whole, though nothing is left")
}
