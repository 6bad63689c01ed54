package streamstest

import (
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/operator"
)

// Record is a record that came out.
type Record struct {
	Partition int32
	record.Record
}

// String returns "key value @timestamp"; null is ∅.
func (r Record) String() string {
	return fmt.Sprintf("%s %s @%d", text(r.Key), text(r.Value), r.Timestamp)
}

func text(b []byte) string {
	if b == nil {
		return "∅"
	}
	return string(b)
}

// visible returns r without the headers of the streams layer.
func visible(r record.Record) record.Record {
	r.Headers = operator.VisibleHeaders(r.Headers)
	return r
}
