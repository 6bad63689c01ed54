package operator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/internal/fields"
)

// Headers this layer adds to records it writes. Steps do not see them.
const (
	// HeaderLane says who wrote the record and in which order (package task).
	HeaderLane = "ms-lane"
	// HeaderWatermark marks a record that only carries time (package task).
	HeaderWatermark = "ms-watermark"
	// HeaderOrigin says, in a repartition topic, which source record the record comes from.
	HeaderOrigin = "ms-origin"
	// HeaderWindow carries, in a repartition topic, the window of an aggregate's result.
	HeaderWindow = "ms-window"
	// HeaderOld carries, in a repartition topic, the value that a change takes the place of.
	HeaderOld = "ms-before"
	// RowHeaderPrefix begins the names of headers in which steps keep joined rows beside a record.
	// They leave the topology with nothing.
	RowHeaderPrefix = "ms-row-"
)

// errOrigin reports an origin header that this package did not write.
var errOrigin = errors.New("malformed origin header")

// Origin is the source record a record comes from.
type Origin struct {
	Topic     string // "" when time alone brought the record about
	Partition int32  // -1 then
	Offset    int64  // -1 then
	Timestamp int64  // event time, ms since 1970-01-01 UTC
	Key       []byte
	Value     []byte
	Headers   []record.Header
}

// OriginOf returns the source record of rec, looking through repartition topics: of what a join or
// an aggregate made, the one that caused it. What time alone brought about, such as the result of a
// window that closed, is its own origin and has no topic.
func OriginOf(rec *Record) Origin {
	if rec.Raw == nil {
		return Origin{Partition: -1, Offset: -1, Timestamp: rec.Timestamp,
			Key: rec.Key, Value: rec.Value, Headers: VisibleHeaders(rec.Headers)}
	}
	from := Input{Partition: -1} // of a record that a test made
	if rec.From != nil {
		from = *rec.From
	}
	o := Origin{Topic: from.Topic, Partition: from.Partition, Offset: rec.Raw.Offset,
		Timestamp: rec.Raw.Timestamp, Key: rec.Raw.Key, Value: rec.Raw.Value,
		Headers: VisibleHeaders(rec.Raw.Headers)}
	if h, ok := rec.Raw.Header(HeaderOrigin); ok {
		if parsed, err := parseOrigin(h, o); err == nil {
			return parsed
		}
	}
	return o
}

// Bits of an origin header that say what follows because the carrying record differs.
const (
	originKey = 1 << iota
	originValue
	originHeaders
)

// AppendOrigin appends the origin header of rec when it is written with the given key, value and
// headers. Layout, integers as zigzag varints, bytes as length (-1 is null) and content:
//
//	topic | partition | offset | timestamp | bits | key if bit 0 | value if bit 1 |
//	if bit 2: count, then name and value of each header
func AppendOrigin(dst []byte, rec *Record, key, value []byte, headers []record.Header) []byte {
	o := OriginOf(rec)
	dst = appendString(dst, o.Topic)
	dst = binary.AppendVarint(dst, int64(o.Partition))
	dst = binary.AppendVarint(dst, o.Offset)
	dst = binary.AppendVarint(dst, o.Timestamp)
	var bits byte
	if !sameBytes(o.Key, key) {
		bits |= originKey
	}
	if !sameBytes(o.Value, value) {
		bits |= originValue
	}
	if !sameHeaders(o.Headers, headers) {
		bits |= originHeaders
	}
	dst = append(dst, bits)
	if bits&originKey != 0 {
		dst = appendBytes(dst, o.Key)
	}
	if bits&originValue != 0 {
		dst = appendBytes(dst, o.Value)
	}
	if bits&originHeaders != 0 {
		dst = binary.AppendVarint(dst, int64(len(o.Headers)))
		for _, h := range o.Headers {
			dst = appendString(dst, h.Key)
			dst = appendBytes(dst, h.Value)
		}
	}
	return dst
}

// parseOrigin reads an origin header; carrier gives what it left out. The result aliases b.
func parseOrigin(b []byte, carrier Origin) (Origin, error) {
	r := fields.Reader{Left: b}
	o := Origin{Topic: string(r.NullableBytes()), Partition: int32(r.Varint()),
		Offset: r.Varint(), Timestamp: r.Varint(),
		Key: carrier.Key, Value: carrier.Value, Headers: carrier.Headers}
	bits := r.Byte()
	if bits&originKey != 0 {
		o.Key = r.NullableBytes()
	}
	if bits&originValue != 0 {
		o.Value = r.NullableBytes()
	}
	if bits&originHeaders != 0 {
		n := r.SignedCount(2) // the lengths of name and value
		o.Headers = make([]record.Header, 0, n)
		for range n {
			o.Headers = append(o.Headers,
				record.Header{Key: string(r.NullableBytes()), Value: r.NullableBytes()})
		}
	}
	if !r.Whole() {
		return Origin{}, fmt.Errorf("parse %d bytes: %w", len(b), errOrigin)
	}
	return o, nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendVarint(dst, int64(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func sameHeaders(a, b []record.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !sameBytes(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

// VisibleHeaders returns h without the headers this layer adds to what it writes. As those come
// last, the result usually shares h.
func VisibleHeaders(h []record.Header) []record.Header {
	n := len(h)
	for n > 0 && isInternal(h[n-1].Key) {
		n--
	}
	h = h[:n:n]
	for i := range h {
		if isInternal(h[i].Key) {
			return withoutInternal(h, i)
		}
	}
	if n == 0 {
		return nil
	}
	return h
}

// withoutInternal copies h without internal headers, the first of which is at i.
func withoutInternal(h []record.Header, i int) []record.Header {
	out := append([]record.Header(nil), h[:i]...)
	for _, x := range h[i:] {
		if !isInternal(x.Key) {
			out = append(out, x)
		}
	}
	return out
}

func isInternal(key string) bool {
	if len(key) < 7 || key[:3] != "ms-" {
		return false
	}
	switch key {
	case HeaderLane, HeaderWatermark, HeaderOrigin, HeaderWindow, HeaderOld:
		return true
	}
	return false
}
