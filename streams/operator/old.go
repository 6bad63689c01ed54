package operator

import (
	"encoding/binary"

	"github.com/millstream-io/millstream/streams/internal/fields"
)

// Layout of HeaderOld:
//
//	+------+------------------+-------+
//	| bits | timestamp varint | value |     bit 0: there is a value
//	+------+------------------+-------+

// AppendOld appends what a change takes the place of, as HeaderOld carries it: value and time.
func AppendOld(dst []byte, old *Record) []byte {
	if old.Value == nil {
		return binary.AppendVarint(append(dst, 0), old.Timestamp)
	}
	return append(binary.AppendVarint(append(dst, 1), old.Timestamp), old.Value...)
}

// ParseOld is the inverse of AppendOld for a change with a key; nil for what AppendOld did not
// make.
func ParseOld(b, key []byte) *Record {
	r := fields.Reader{Left: b}
	bits := r.Byte()
	old := &Record{Key: key, Timestamp: r.Varint()}
	if r.Failed() || bits > 1 {
		return nil
	}
	if bits == 1 {
		old.Value = append([]byte{}, r.Left...)
	}
	return old
}
