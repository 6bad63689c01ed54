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

// The options of joins with tables that are read in the order of event time.
type (
	// JoinTableOptions describe a join of a stream with a table.
	JoinTableOptions = join.TableOptions
	// JoinTablesOptions describe a join of two tables by key.
	JoinTablesOptions = join.TablesOptions
	// JoinForeignOptions describe a join of two tables by a key in a row of the left one.
	JoinForeignOptions = join.ForeignOptions
	// ChangesOptions describe a table made of a stream of upserts.
	ChangesOptions = join.ChangesOptions
)

// JoinUpserts joins every record with the row that its key has in a table at the record's time.
// rows are the upserts of the table: a stream of a compacted topic, or what a step gives.
func (s *Stream) JoinUpserts(id string, rows *Stream, o JoinTableOptions) *Stream {
	s.b.JoinTable(id, s.id, rows.id, o)
	return s.next(id)
}

// JoinAsTables joins the upserts of two tables by key. The result are the changes of a third one.
func (s *Stream) JoinAsTables(id string, other *Stream, o JoinTablesOptions) *Stream {
	s.b.JoinTables(id, s.id, other.id, o)
	return s.next(id)
}

// JoinForeign joins the upserts of two tables where a row of s names the key of a row of other.
// The result are the changes of a third one, with the keys of s.
func (s *Stream) JoinForeign(id string, other *Stream, o JoinForeignOptions) *Stream {
	s.b.JoinForeign(id, s.id, other.id, o)
	return s.next(id)
}

// Changes keeps the latest record of every key and gives each with the one it takes the place of.
func (s *Stream) Changes(id string, o ChangesOptions) *Stream {
	s.b.Changes(id, s.id, o)
	return s.next(id)
}
