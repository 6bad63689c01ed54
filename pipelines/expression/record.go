package expression

import "github.com/millstream-io/millstream/core/record"

// Record is what a program looks at. The caller owns all memory; a program never keeps any of it
// beyond the next Reset of its Env.
type Record struct {
	Key, Value []byte // nil is null
	Headers    []record.Header
	// Timestamp is the event time in ms since the epoch.
	Timestamp int64
	Topic     string
	Partition int32
	Offset    int64
	// WindowStart and WindowEnd are the window [start, end) in ms, in a scope with a window.
	WindowStart, WindowEnd int64
	// ValueValid says that Value is known to be valid JSON, so that a scan may stop early. The
	// first Env that reads the value as JSON sets it. Where it is wrong, what is read of the
	// value is still read safely.
	ValueValid bool
	// RowsValid says the same of all joined rows, which come out of a table that checked them.
	RowsValid bool
}

// header returns the last header called name, as Kafka clients do.
func (r *Record) header(name string) (value []byte, ok bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == name {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}
