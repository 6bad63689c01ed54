package streamstest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/topology"
)

// Cases of joins have lines "L ts key=value" and "R ts key=value" in the order in which a task sees
// them: both sides come from one topic, so that S is the largest timestamp as in the rules. Without
// a side a record goes to both (self join).

// sideHeader tells the sides apart.
const sideHeader = "side"

// joinSetup is what the first line of a case asks for.
type joinSetup struct {
	cmd     string
	streams join.StreamOptions
	table   join.TableOptions
	tables  join.TablesOptions
	foreign join.ForeignOptions
	closes  bool
}

func parseJoinSetup(t *testing.T, d *datadriven.TestData) joinSetup {
	s := joinSetup{cmd: d.Cmd}
	ms := func(a datadriven.CmdArg) time.Duration {
		var n int64
		_, err := fmt.Sscan(a.Vals[0], &n)
		require.NoError(t, err)
		return time.Duration(n) * time.Millisecond
	}
	kinds := map[string]join.Kind{"inner": join.Inner, "left": join.Left, "outer": join.Outer}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "kind":
			kind, ok := kinds[a.Vals[0]]
			require.True(t, ok, a.Vals[0])
			s.streams.Kind, s.table.Kind, s.tables.Kind, s.foreign.Kind = kind, kind, kind, kind
		case "within":
			s.streams.Before, s.streams.After = ms(a), ms(a)
		case "before":
			s.streams.Before = ms(a)
		case "after":
			s.streams.After = ms(a)
		case "grace":
			s.streams.Grace, s.table.Grace = ms(a), ms(a)
		case "history":
			s.table.History = ms(a)
		case "out_of_order":
			require.Equal(t, "ignore", a.Vals[0])
			s.tables.OutOfOrder, s.table.OutOfOrder = join.Ignore, join.Ignore
		case "on_end":
			s.closes = a.Vals[0] == "close"
		default:
			t.Fatalf("unknown argument %q", a.Key)
		}
	}
	s.streams.Join, s.tables.Join, s.foreign.Join = showPair, showPair, showPair
	s.table.Join = func(rec, row *operator.Record) error {
		left := *rec
		return showPair(rec, &left, row)
	}
	s.foreign.ForeignKey = func(rec *operator.Record) ([]byte, error) {
		if string(rec.Value) == "null" {
			return nil, nil
		}
		return rec.Value, nil
	}
	late := operator.LatePolicy{Action: operator.LateSide, Topic: "late"}
	s.streams.Late, s.table.Late = late, late
	return s
}

// add adds the join of the case as step, which reads left and right.
func (s *joinSetup) add(b *topology.Builder) {
	switch s.cmd {
	case "streams":
		b.JoinStreams("step", "left", "right", s.streams)
	case "stream-table":
		b.JoinTable("step", "left", "right", s.table)
	case "tables":
		b.JoinTables("step", "left", "right", s.tables)
	case "foreign":
		b.JoinForeign("step", "left", "right", s.foreign)
	}
}

// showTombstone gives a deletion a value to be seen.
func showTombstone(rec *operator.Record) error {
	if rec.IsNull() {
		rec.SetValue(fmt.Appendf(nil, "%s:†@%d", rec.Key, rec.Timestamp))
	}
	return nil
}

// showPair makes the value of a joined record what the golden files show.
func showPair(out, l, r *operator.Record) error {
	show := func(x *operator.Record) string {
		if x == nil {
			return "null"
		}
		return string(x.Value)
	}
	key := "<null>"
	if out.Key != nil {
		key = string(out.Key)
	}
	out.SetValue(fmt.Appendf(nil, "%s:(%s,%s)@%d", key, show(l), show(r), out.Timestamp))
	return nil
}

// bareJoin runs the operator alone.
type bareJoin struct {
	op   operator.Operator
	ctx  *operator.Context
	time int64
	n    int64
	said []string
}

func newBareJoin(t *testing.T, d *datadriven.TestData) engine {
	s := parseJoinSetup(t, d)
	b := &bareJoin{time: operator.NoTime}
	switch s.cmd {
	case "streams":
		s.streams.Store = "step"
		require.NoError(t, s.streams.Validate())
		b.op = join.NewStreams(s.streams)()
	case "stream-table":
		s.table.Store = "step"
		require.NoError(t, s.table.Validate())
		b.op = join.NewTable(s.table)()
	case "tables":
		s.tables.Store = "step"
		require.NoError(t, s.tables.Validate())
		b.op = join.NewTables(s.tables)()
	case "foreign": // three steps: run by the driver
		return newWholeJoin(onDriver(false))(t, d)
	}
	b.ctx = operator.NewContext(operator.ContextOptions{Step: "step",
		Stores: streamstest.NewStores(), Late: s.streams.Late, Reporter: b,
		StreamTime: operator.NoTime})
	return b
}

// DeadLetter implements operator.Reporter.
func (b *bareJoin) DeadLetter(_ *operator.Record, d operator.DeadLetter) {
	b.said = append(b.said, "DLQ "+d.Class)
}

// LateRecord implements operator.Reporter.
func (b *bareJoin) LateRecord(_ *operator.Record, _ string, l operator.LateReport) {
	b.said = append(b.said, fmt.Sprintf("LATE [%d,%d) S=%d", l.First.Start, l.First.End,
		l.StreamTime))
}

func (b *bareJoin) feed(t *testing.T, line string) []string {
	b.said = nil
	in := operator.Batch{}
	if line == "end" {
		b.time = operator.EndOfTime
	} else {
		side, _, raw := parseLine(t, line)
		b.time = max(b.time, raw.Timestamp)
		for i, name := range []string{"L", "R"} {
			if side == name || side == "" {
				in.Records = append(in.Records, operator.Record{Key: raw.Key, Value: raw.Value,
					Timestamp: raw.Timestamp, StreamTime: b.time, Input: int32(i)})
			}
		}
	}
	b.n++
	in.StreamTime = b.time
	in.Steps = []operator.TimeStep{{Time: b.time, Order: 2 * b.n}}
	var out operator.Batch
	require.NoError(t, b.op.Process(b.ctx, &in, &out))
	var got []string
	for i := range out.Records {
		require.NoError(t, showTombstone(&out.Records[i]))
		got = append(got, string(out.Records[i].Value))
	}
	return append(got, b.said...)
}

// wholeJoin runs a topology.
type wholeJoin struct {
	whole
	// ticks: after each line time moves on by 1 ms, so that what passes between tasks at that time
	// is known to be all.
	ticks bool
}

func newWholeJoin(start func(*testing.T, *topology.Builder) runner,
) func(*testing.T, *datadriven.TestData) engine {
	return func(t *testing.T, d *datadriven.TestData) engine {
		w := whole{r: start(t, joinTopology(parseJoinSetup(t, d))), seen: map[string]int{}}
		return &wholeJoin{whole: w, ticks: d.Cmd == "foreign"}
	}
}

// joinTopology reads the sides from one topic.
func joinTopology(s joinSetup) *topology.Builder {
	b := topology.NewBuilder(topology.Options{App: "golden", CloseAtEnd: s.closes,
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("in", "in0", topology.SourceOptions{})
	on := func(side string) func(r *operator.Record) (bool, error) {
		return func(r *operator.Record) (bool, error) {
			for _, h := range r.Headers {
				if h.Key == sideHeader {
					return strings.Contains(string(h.Value), side), nil
				}
			}
			return false, nil
		}
	}
	b.Filter("left", "in", on("L"))
	b.Filter("right", "in", on("R"))
	s.add(b)
	b.Map("shown", "step", showTombstone)
	b.Sink("out", "shown", "out", topology.SinkOptions{})
	return b
}

func (w *wholeJoin) feed(t *testing.T, line string) []string {
	last := int64(0)
	for _, one := range strings.Split(line, "; ") {
		last = w.one(t, one)
	}
	if w.ticks {
		w.r.feed(t, "in0", record.Record{Timestamp: last + 1})
	}
	return w.news(t)
}

// one feeds one record and returns its timestamp.
func (w *wholeJoin) one(t *testing.T, line string) int64 {
	if line == "end" {
		w.r.end(t)
		return 0
	}
	side, _, raw := parseLine(t, line)
	if side == "" {
		side = "LR"
	}
	raw.Headers = []record.Header{{Key: sideHeader, Value: []byte(side)}}
	w.r.feed(t, "in0", raw)
	return raw.Timestamp
}
