package streams

import (
	"time"

	"github.com/millstream-io/millstream/streams/join"
)

// JoinStreamOptions describe a join of two streams.
type JoinStreamOptions = join.StreamOptions

// Within returns the options of a join of records with equal keys that are at most d apart in
// event time, in any order. make sets the value of out from a pair.
func Within(d time.Duration, make func(out, left, right *Record) error) JoinStreamOptions {
	return join.StreamOptions{Before: d, After: d, Join: make}
}

// JoinStream joins records of two streams with equal keys whose event times are near each other.
func (s *Stream) JoinStream(id string, other *Stream, o JoinStreamOptions) *Stream {
	o.Kind = join.Inner
	return s.joinStream(id, other, o)
}

// LeftJoinStream is JoinStream that also gives records of s for which nothing came in time, with a
// right that is nil, once their window closes.
func (s *Stream) LeftJoinStream(id string, other *Stream, o JoinStreamOptions) *Stream {
	o.Kind = join.Left
	return s.joinStream(id, other, o)
}

// OuterJoinStream is LeftJoinStream for both sides.
func (s *Stream) OuterJoinStream(id string, other *Stream, o JoinStreamOptions) *Stream {
	o.Kind = join.Outer
	return s.joinStream(id, other, o)
}

func (s *Stream) joinStream(id string, other *Stream, o JoinStreamOptions) *Stream {
	s.b.JoinStreams(id, s.id, other.id, o)
	return s.next(id)
}
