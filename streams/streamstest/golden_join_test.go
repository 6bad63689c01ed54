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
	streams join.StreamOptions
	closes  bool
}

func parseJoinSetup(t *testing.T, d *datadriven.TestData) joinSetup {
	s := joinSetup{}
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
			s.streams.Kind = kind
		case "within":
			s.streams.Before, s.streams.After = ms(a), ms(a)
		case "before":
			s.streams.Before = ms(a)
		case "after":
			s.streams.After = ms(a)
		case "grace":
			s.streams.Grace = ms(a)
		case "on_end":
			s.closes = a.Vals[0] == "close"
		default:
			t.Fatalf("unknown argument %q", a.Key)
		}
	}
	s.streams.Store = "step"
	s.streams.Join = showPair
	s.streams.Late = operator.LatePolicy{Action: operator.LateSide, Topic: "late"}
	return s
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
	require.NoError(t, s.streams.Validate())
	b := &bareJoin{op: join.NewStreams(s.streams)(), time: operator.NoTime}
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
	for _, r := range out.Records {
		got = append(got, string(r.Value))
	}
	return append(got, b.said...)
}

// wholeJoin runs a topology.
type wholeJoin struct{ whole }

func newWholeJoin(start func(*testing.T, *topology.Builder) runner,
) func(*testing.T, *datadriven.TestData) engine {
	return func(t *testing.T, d *datadriven.TestData) engine {
		w := whole{r: start(t, joinTopology(parseJoinSetup(t, d))), seen: map[string]int{}}
		return &wholeJoin{w}
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
	b.JoinStreams("step", "left", "right", s.streams)
	b.Sink("out", "step", "out", topology.SinkOptions{})
	return b
}

func (w *wholeJoin) feed(t *testing.T, line string) []string {
	if line == "end" {
		w.r.end(t)
	} else {
		side, _, raw := parseLine(t, line)
		if side == "" {
			side = "LR"
		}
		raw.Headers = []record.Header{{Key: sideHeader, Value: []byte(side)}}
		w.r.feed(t, "in0", raw)
	}
	return w.news(t)
}
