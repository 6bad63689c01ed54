package operator

import (
	"math"
	"sort"
	"strconv"

	"github.com/millstream-io/millstream/core/record"
)

// Limits of stream time, in ms. They are ordinary values for comparisons.
const (
	// NoTime is the stream time before anything was seen.
	NoTime int64 = math.MinInt64
	// EndOfTime is the stream time after the end of bounded input: every window is closed.
	EndOfTime int64 = math.MaxInt64
)

// Window is a span of event time in ms since 1970-01-01 UTC: [Start, End), or [Start, End] when it
// is Inclusive, as sessions, sliding and count windows are. The zero value means none.
type Window struct {
	Start, End int64
	Inclusive  bool
}

// IsZero reports whether there is no window.
func (w Window) IsZero() bool { return w.Start == w.End && !w.Inclusive }

// String returns the window as "[start,end)" or "[start,end]", in ms.
func (w Window) String() string { return w.text(func(ms int64) string { return itoa(ms) }, ",") }

func (w Window) text(at func(int64) string, comma string) string {
	end := ")"
	if w.Inclusive {
		end = "]"
	}
	return "[" + at(w.Start) + comma + at(w.End) + end
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// Input says which topic partition records came from. One value is shared by all of its records.
type Input struct {
	Topic     string
	Partition int32
}

// Record is one record on its way through the steps of a task.
type Record struct {
	Key     []byte          // nil is null
	Value   []byte          // nil is null; older than Doc when Dirty
	Headers []record.Header // without the lane and origin headers of this layer
	// Timestamp is the event time in ms. An aggregate has the largest one of its contributors.
	Timestamp int64
	// StreamTime is the time of the task, in ms, at which this record is processed. Set by the
	// task, kept by steps.
	StreamTime int64
	// Order is the place of the event that caused this record among all events of the task:
	// 2n+1 for record n, 2n for what became due just before it. Set by the task, kept by steps.
	Order int64
	// Window is the window of an aggregate's result, else zero.
	Window Window
	// Doc is the decoded value, nil until some step decoded it. The layer above owns its type.
	Doc any
	// Raw is the record as it was read from its topic, or, when Made, the one that caused this one;
	// nil for what time alone brought about.
	Raw *record.Record
	// From says where Raw was read; nil when Raw is.
	From *Input
	// Old is the record that this one takes the place of, when a table gives its changes: the row
	// of the key as it was, with the value and headers it had. nil when the key had no row, and
	// for records of streams. Only the step that reads the table directly may rely on it: steps
	// in between change the new record alone. It is read only.
	Old *Record
	// Input says which input of a step with several the record came by, counted in the order in
	// which the inputs were named. Set by the task.
	Input int32
	// Dirty tells that Doc is newer than Value, so a sink has to encode Doc.
	Dirty bool
	// Shared tells that other records refer to the same Doc: change a copy.
	Shared bool
	// Made tells that a join or an aggregate made the record: Raw only says what caused it.
	Made bool
}

// CausedBy notes which record this one was made for; what fails behind here shows that one.
func (r *Record) CausedBy(cause *Record) {
	r.Raw, r.From, r.Made = cause.Raw, cause.From, true
}

// Topic returns the topic the record was read from, "" for one that was made.
func (r *Record) Topic() string {
	if r.From == nil || r.Made {
		return ""
	}
	return r.From.Topic
}

// Partition returns the partition the record was read from, -1 for one that was made.
func (r *Record) Partition() int32 {
	if r.From == nil || r.Made {
		return -1
	}
	return r.From.Partition
}

// Offset returns the offset the record was read at, -1 for one that was made.
func (r *Record) Offset() int64 {
	if r.Raw == nil || r.Made {
		return -1
	}
	return r.Raw.Offset
}

// Windowed reports whether the record carries a window.
func (r *Record) Windowed() bool { return !r.Window.IsZero() }

// TakesBack reports whether the record only says that a row or a result is gone.
func (r *Record) TakesBack() bool { return r.Old != nil && r.IsNull() }

// IsNull reports whether the record has no value: neither bytes nor a decoded one.
func (r *Record) IsNull() bool { return r.Value == nil && r.Doc == nil }

// SetValue replaces the value with encoded bytes and forgets the decoded form.
func (r *Record) SetValue(value []byte) {
	r.Value, r.Doc, r.Dirty = value, nil, false
}

// SetDoc replaces the decoded value; a sink will encode it.
func (r *Record) SetDoc(doc any) {
	r.Doc, r.Dirty, r.Shared = doc, true, false
}

// Batch is a run of records in processing order.
type Batch struct {
	Records []Record
	// StreamTime is the time of the task after the last record, filtered ones included.
	StreamTime int64
	// Steps are the moves of stream time in this run, rising in both fields. The last one has
	// the time of the batch, unless time did not move.
	Steps []TimeStep
	// Wall is the machine's time in ms, for steps that ask for it; 0 where it is not known.
	Wall int64
}

// TimeStep says that stream time went up to Time; what became due by that has the stamp Order.
type TimeStep struct {
	Time, Order int64
	// Event tells that the next record of the task was about to be processed, though it may not
	// come to the step. Other steps of time are those of watermarks alone: how many of them there
	// are between two events is an accident of when what was read.
	Event bool
}

// OrderAt returns the Order of what is due at a time that was passed in this run. It is that of
// the event that moved time, even if its record never came to the step that asks: so the stamp
// does not depend on where batches are cut.
func (b *Batch) OrderAt(due int64) int64 {
	i := sort.Search(len(b.Steps), func(i int) bool { return b.Steps[i].Time >= due })
	if i == len(b.Steps) {
		return 0
	}
	return b.Steps[i].Order
}

// Append adds a copy of r.
func (b *Batch) Append(r *Record) { b.Records = append(b.Records, *r) }

// Next adds a zero record and returns it, to be filled in its place.
func (b *Batch) Next() *Record {
	n := len(b.Records)
	if n == cap(b.Records) {
		b.Records = append(b.Records, Record{})
		return &b.Records[n]
	}
	b.Records = b.Records[:n+1]
	r := &b.Records[n]
	*r = Record{}
	return r
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.Records = b.Records[:0] }

// Forget lets go of records behind the end, left there by longer contents before: each would keep
// all that was read together with it.
func (b *Batch) Forget() {
	rest := b.Records[len(b.Records):cap(b.Records)]
	for i := range rest {
		if r := &rest[i]; r.Raw == nil && r.Key == nil && r.Value == nil {
			return
		}
		rest[i] = Record{}
	}
}
