package streams

import (
	"time"

	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/gate"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/topology"
)

// Stream is a sequence of records. It may be read by several steps.
type Stream struct {
	b  *topology.Builder
	id string // of the step, or "id.output"
}

// Table is a table that streams can be joined to.
type Table struct{ id string }

func (s *Stream) next(id string) *Stream { return &Stream{b: s.b, id: id} }

// Filter keeps the records for which keep returns true.
func (s *Stream) Filter(id string, keep func(*Record) (bool, error)) *Stream {
	s.b.Filter(id, s.id, keep)
	return s.next(id)
}

// Map changes every record: its value (SetValue, SetDoc), key or headers.
func (s *Stream) Map(id string, fn func(*Record) error) *Stream {
	s.b.Map(id, s.id, fn)
	return s.next(id)
}

// FlatMap replaces every record by those passed to emit.
func (s *Stream) FlatMap(id string, fn func(rec *Record, emit func(Record)) error) *Stream {
	s.b.FlatMap(id, s.id, fn)
	return s.next(id)
}

// Branch sends each record to the first case that takes it; the result has a stream per case. A
// case without When takes all; a record no case takes leaves the stream.
func (s *Stream) Branch(id string, cases ...Case) []*Stream {
	s.b.Branch(id, s.id, cases)
	var out []*Stream
	for _, c := range cases {
		out = append(out, s.next(id+"."+c.Name))
	}
	return out
}

// Merge joins streams into one, in event-time order of their causes.
func (s *Stream) Merge(id string, others ...*Stream) *Stream {
	from := []string{s.id}
	for _, o := range others {
		from = append(from, o.id)
	}
	s.b.Merge(id, from...)
	return s.next(id)
}

// Process adds a step of one's own.
func (s *Stream) Process(id string, o ProcessOptions) *Stream {
	s.b.Process(id, []string{s.id}, o)
	return s.next(id)
}

// KeyBy gives records a new key and moves them, through a topic, to the task of that key. A null
// key fails the record.
func (s *Stream) KeyBy(id string, key func(*Record) ([]byte, error)) *Stream {
	return s.KeyByWith(id, KeyByOptions{Key: key})
}

// KeyByWith is KeyBy with options.
func (s *Stream) KeyByWith(id string, o KeyByOptions) *Stream {
	s.b.KeyBy(id, s.id, o)
	return s.next(id)
}

// Join looks every record up in a table by its key; a record that matches nothing is left out.
// right is as in join.Options.
func (s *Stream) Join(id string, t *Table, fn func(rec *Record, right any) error) *Stream {
	return s.JoinWith(id, t, join.Options{Kind: join.Inner, Join: fn})
}

// LeftJoin is Join that keeps records without a match; right is nil for them.
func (s *Stream) LeftJoin(id string, t *Table, fn func(rec *Record, right any) error) *Stream {
	return s.JoinWith(id, t, join.Options{Kind: join.Left, Join: fn})
}

// JoinWith is Join with options.
func (s *Stream) JoinWith(id string, t *Table, o join.Options) *Stream {
	s.b.Join(id, s.id, t.id, o)
	return s.next(id)
}

// Aggregate computes fields per key over all records, with a result for every record. A key that
// had no record for ttl of event time is forgotten. Results are JSON objects of the fields.
func (s *Stream) Aggregate(id string, ttl time.Duration, fields ...Field) *Stream {
	return s.AggregateWith(id, aggregate.Options{Fields: fields, Forget: ttl})
}

// AggregateWith is Aggregate with all options.
func (s *Stream) AggregateWith(id string, o aggregate.Options) *Stream {
	s.b.Aggregate(id, s.id, o)
	return s.next(id)
}

// To writes the stream to a topic.
func (s *Stream) To(id, topic string) { s.ToWith(id, topic, SinkOptions{}) }

// ToWith is To with options.
func (s *Stream) ToWith(id, topic string, o SinkOptions) { s.b.Sink(id, s.id, topic, o) }

// AggregateTable computes fields over the rows of a table, given as Changes, by groups. A row that
// moves or goes is taken back from its group.
func (s *Stream) AggregateTable(id string, group func(*Record) ([]byte, error),
	fields ...Field) *Stream {
	s.b.AggregateTable(id, s.id, group, aggregate.Options{Fields: fields})
	return s.next(id)
}

// FilterRows keeps rows of a table, given as Changes. One that no longer passes is deleted.
func (s *Stream) FilterRows(id string, keep func(*Record) (bool, error)) *Stream {
	s.b.FilterRows(id, s.id, keep)
	return s.next(id)
}

// MapRows changes the value of the rows of a table, given as Changes; fn must give the same for the
// same row.
func (s *Stream) MapRows(id string, fn func(*Record) error) *Stream {
	s.b.MapRows(id, s.id, fn)
	return s.next(id)
}

// Route writes each record to the topic that topicOf names.
func (s *Stream) Route(id string, topicOf func(*Record) (string, error)) {
	s.b.Route(id, s.id, topicOf, SinkOptions{})
}

// Dedupe lets the first record of each key through, for a span of event time.
func (s *Stream) Dedupe(id string, within time.Duration) *Stream {
	return s.DedupeWith(id, gate.DedupeOptions{Within: within})
}

// DedupeWith is Dedupe with all options. Records that may be the same must have the same key.
func (s *Stream) DedupeWith(id string, o gate.DedupeOptions) *Stream {
	s.b.Dedupe(id, s.id, o)
	return s.next(id)
}

// Throttle lets so many records of each key per span of event time through.
func (s *Stream) Throttle(id string, count int64, per time.Duration) *Stream {
	return s.ThrottleWith(id, gate.ThrottleOptions{Count: count, Per: per, Key: gate.ByKey})
}

// ThrottleWith is Throttle with all options.
func (s *Stream) ThrottleWith(id string, o gate.ThrottleOptions) *Stream {
	s.b.Throttle(id, s.id, o)
	return s.next(id)
}
