package record

import "slices"

// NoTimestamp is the timestamp of a record that carries none.
const NoTimestamp int64 = -1

// Header is a named value beside a record's own. Names may repeat; order is kept.
type Header struct {
	Key   string
	Value []byte // nil is null, which is not the same as empty
}

// Record is one entry of a log. Nil Key or Value is null; a null value in a compacted topic is a
// tombstone.
type Record struct {
	Offset    int64 // position in the partition; ignored by Builder.Append
	Timestamp int64 // milliseconds since 1970-01-01 UTC, or NoTimestamp
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Clone returns a record that shares no memory with r.
func (r *Record) Clone() Record {
	c := *r
	c.Key = slices.Clone(r.Key)
	c.Value = slices.Clone(r.Value)
	c.Headers = slices.Clone(r.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return c
}

// Header returns the value of the last header of that name, as Kafka's lastHeader does.
func (r *Record) Header(key string) ([]byte, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}
