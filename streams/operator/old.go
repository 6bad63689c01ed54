package operator

import (
	"encoding/binary"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/internal/fields"
)

// Layout of HeaderOld:
//
//	+------+------------------+---------------------+-------+
//	| bits | timestamp varint | headers if bit 1    | value |
//	+------+------------------+---------------------+-------+
//	  bit 0: there is a value   count, then name and
//	                            value of each
const (
	oldValue = 1 << iota
	oldHeaders
)

// AppendOld appends what a change takes the place of, as HeaderOld carries it: value, time and
// headers.
func AppendOld(dst []byte, old *Record) []byte {
	at := len(dst)
	dst = binary.AppendVarint(append(dst, 0), old.Timestamp)
	if len(old.Headers) > 0 {
		dst[at] |= oldHeaders
		dst = binary.AppendVarint(dst, int64(len(old.Headers)))
		for _, h := range old.Headers {
			dst = appendBytes(appendString(dst, h.Key), h.Value)
		}
	}
	if old.Value == nil {
		return dst
	}
	dst[at] |= oldValue
	return append(dst, old.Value...)
}

// ParseOld is the inverse of AppendOld for a change with a key; nil for what AppendOld did not
// make.
func ParseOld(b, key []byte) *Record {
	r := fields.Reader{Left: b}
	bits := r.Byte()
	old := &Record{Key: key, Timestamp: r.Varint()}
	if bits&oldHeaders != 0 {
		n := r.SignedCount(2) // the lengths of name and value
		old.Headers = make([]record.Header, 0, n)
		for range n {
			old.Headers = append(old.Headers,
				record.Header{Key: string(r.NullableBytes()), Value: r.NullableBytes()})
		}
	}
	if r.Failed() || bits > oldValue|oldHeaders {
		return nil
	}
	if bits&oldValue != 0 {
		old.Value = append([]byte{}, r.Left...)
	}
	return old
}
