package sdk

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Header is a named value beside a record's own.
type Header = record.Header

// Record is one record on its way through the plugin. It is valid until the function it was
// given to returns; Clone makes one that lasts. It is not safe for concurrent use.
type Record struct {
	r     pluginpb.Record
	spare []byte // memory of the value before last, for the next Set
	owned []byte // memory of the value when Set made it
}

// NewRecord makes a record without a timestamp. It keeps key and value; nil is null.
func NewRecord(key, value []byte) *Record {
	r := &Record{}
	r.r.Key, r.r.Value, r.r.Timestamp = key, value, record.NoTimestamp
	return r
}

// Key returns the key, nil for null. It must not be changed in place.
func (r *Record) Key() []byte { return r.r.Key }

// SetKey replaces the key, nil for null. The record keeps the slice.
func (r *Record) SetKey(key []byte) { r.r.Key = key }

// Value returns the value, nil for null. It must not be changed in place and is valid until the
// next Set or Unset.
func (r *Record) Value() []byte { return r.r.Value }

// SetValue replaces the value, nil for null. The record keeps the slice.
func (r *Record) SetValue(value []byte) {
	r.r.Value = value
	r.spare = nil // value may be part of it
}

// Decode unmarshals the JSON value into v.
func (r *Record) Decode(v any) error { return json.Unmarshal(r.r.Value, v) }

// Headers returns the headers in their order.
func (r *Record) Headers() []Header { return r.r.Headers }

// Header returns the value of the last header of that name.
func (r *Record) Header(name string) ([]byte, bool) { return r.r.Header(name) }

// SetHeader replaces all headers of that name by one, or adds it at the end.
func (r *Record) SetHeader(name string, value []byte) {
	r.DeleteHeader(name)
	r.r.Headers = append(r.r.Headers, Header{Key: name, Value: value})
}

// DeleteHeader removes all headers of that name.
func (r *Record) DeleteHeader(name string) {
	r.r.Headers = slices.DeleteFunc(r.r.Headers, func(h Header) bool { return h.Key == name })
}

// Timestamp returns the record's time in UTC, the zero time when it has none.
func (r *Record) Timestamp() time.Time {
	if r.r.Timestamp == record.NoTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(r.r.Timestamp).UTC()
}

// SetTimestamp replaces the record's time, kept in milliseconds; the zero time is none.
func (r *Record) SetTimestamp(t time.Time) {
	if t.IsZero() {
		r.r.Timestamp = record.NoTimestamp
		return
	}
	r.r.Timestamp = t.UnixMilli()
}

// Topic is the topic the record comes from; for a source, what SetOrigin named.
func (r *Record) Topic() string { return r.r.Topic }

// Partition is the partition the record comes from.
func (r *Record) Partition() int32 { return r.r.Partition }

// Offset is the record's offset in its partition; for a source, what SetOrigin gave.
func (r *Record) Offset() int64 { return r.r.Offset }

// SetOrigin says, in a source, where the record comes from: a file and its line, a table and a
// sequence number. The host shows it with errors.
func (r *Record) SetOrigin(name string, number int64) { r.r.Topic, r.r.Offset = name, number }

// Clone returns a record that stays valid.
func (r *Record) Clone() *Record { return &Record{r: r.r.Clone()} }
