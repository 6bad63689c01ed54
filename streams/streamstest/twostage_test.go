package streamstest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// flight is one input record of the two-stage test.
type flight struct {
	origin string
	at     int64
	delay  int64
}

const (
	flightPartitions = 6
	day              = 100 // ms; a window
	slack            = 30  // ms; grace
)

// flights makes records out of order by up to 150 ms, and some whose origin is in no table.
func flights(n int, rnd *rand.Rand) []flight {
	var list []flight
	for i := range n {
		f := flight{origin: fmt.Sprintf("A%02d", rnd.IntN(30)), delay: int64(rnd.IntN(90)) - 20}
		f.at = max(0, int64(i)*2-int64(rnd.IntN(150)))
		if rnd.IntN(40) == 0 {
			f.origin = "X" + f.origin
		}
		list = append(list, f)
	}
	return list
}

// stateOf is the table: the state of an airport.
func stateOf(origin string) string { return "S" + origin[len(origin)-1:] }

// twoStages is the topology: join a table, key by state, count by day.
func twoStages() *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "flights", CloseAtEnd: true,
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("flights", "flights", topology.SourceOptions{})
	b.Table("airports", "airports", topology.TableOptions{Broadcast: true})
	b.Join("located", "flights", "airports", join.Options{Kind: join.Required,
		Join: func(rec *operator.Record, right any) error {
			state, ok := right.([]byte)
			if !ok {
				return errors.New("row is no bytes")
			}
			rec.SetValue(fmt.Appendf(nil, "%s|%s", state, rec.Value))
			return nil
		}})
	b.KeyBy("by_state", "located", topology.KeyByOptions{Partitions: 3,
		Key: func(rec *operator.Record) ([]byte, error) {
			state, _, _ := strings.Cut(string(rec.Value), "|")
			return []byte(state), nil
		}})
	delay := func(rec *operator.Record) (aggregate.Value, error) {
		var d int64
		_, text, _ := strings.Cut(string(rec.Value), "|")
		_, err := fmt.Sscan(text, &d)
		return aggregate.IntValue(d), err
	}
	b.Aggregate("totals", "by_state", aggregate.Options{
		Windows: window.Tumbling(day * time.Millisecond), Grace: slack * time.Millisecond,
		Emit: aggregate.OnClose, Late: operator.LatePolicy{Action: operator.LateSide, Topic: "late"},
		Fields: []aggregate.Field{{Name: "flights"}, {Name: "delay", Func: aggregate.Sum,
			Value: delay}}})
	b.Sink("out", "totals", "totals", topology.SinkOptions{})
	return b
}

// runFlights feeds everything and returns the driver when all is processed.
func runFlights(t *testing.T, list []flight, o streamstest.Options) *streamstest.Driver {
	o.Partitions = map[string]int32{"flights": flightPartitions, "airports": 2, "totals": 2}
	d, err := streamstest.New(twoStages(), o)
	require.NoError(t, err)
	for i := range 30 {
		origin := fmt.Sprintf("A%02d", i)
		d.Send("airports", origin, stateOf(origin), 0)
	}
	for _, f := range list {
		d.Send("flights", f.origin, fmt.Sprint(f.delay), f.at)
	}
	d.EndOfInput()
	require.NoError(t, d.Run())
	require.True(t, d.Done())
	return d
}

// lanes returns everything that leaves the topology by topic, partition and writer: tasks that
// write one partition do so in turns nobody controls, each of them in an order that is fixed.
func lanes(t *testing.T, d *streamstest.Driver) map[string][]string {
	return lanesOf(t, d, map[string]int32{"totals": 2, "dlq": 1, "late": 1})
}

// lanesOf is lanes for topics with the given partition counts.
func lanesOf(t *testing.T, d *streamstest.Driver, topics map[string]int32) map[string][]string {
	return lanesIn(t, d.Log, topics)
}

func lanesIn(t *testing.T, log func(topic string, partition int32) []record.Record,
	topics map[string]int32,
) map[string][]string {
	all := map[string][]string{}
	for topic, n := range topics {
		for p := range n {
			for _, r := range log(topic, p) {
				value, ok := r.Header(task.LaneHeader)
				require.True(t, ok)
				lane, err := task.ParseLane(value)
				require.NoError(t, err)
				at := fmt.Sprintf("%s-%d by %s", topic, p, lane.Writer)
				all[at] = append(all[at], fmt.Sprintf("%d %q %q %q", r.Timestamp, r.Key, r.Value, r.Headers))
			}
		}
	}
	return all
}

// requireSame compares two runs and shows the first difference only.
func requireSame(t *testing.T, want, got map[string][]string, what string) {
	t.Helper()
	for at, lines := range want {
		for i, line := range lines {
			if i >= len(got[at]) || got[at][i] != line {
				other := "nothing"
				if i < len(got[at]) {
					other = got[at][i]
				}
				t.Fatalf("%s: %s, record %d:\nwant %s\ngot  %s", what, at, i, line, other)
			}
		}
		if len(got[at]) != len(lines) {
			t.Fatalf("%s: %s: %d records more", what, at, len(got[at])-len(lines))
		}
	}
	require.Len(t, got, len(want), what)
}

// TestTwoStages compares with a calculation from the input alone: a record of source partition p
// is taken at eff = max ts of p so far, and is late iff eff >= end of its window + grace.
func TestTwoStages(t *testing.T) {
	for seed := range uint64(5) {
		list := flights(1200, rand.New(rand.NewPCG(seed, 1)))
		type row struct{ count, sum, ts int64 }
		want := map[string]*row{}
		eff := map[int32]int64{}
		late, unknown := 0, 0
		for _, f := range list {
			p := record.PartitionForKey([]byte(f.origin), flightPartitions)
			eff[p] = max(eff[p], f.at)
			start := f.at / day * day
			switch {
			case f.origin[0] == 'X':
				unknown++
			case eff[p] >= start+day+slack:
				late++
			default:
				k := fmt.Sprintf("%s %d", stateOf(f.origin), start)
				if want[k] == nil {
					want[k] = &row{}
				}
				want[k].count++
				want[k].sum += f.delay
				want[k].ts = max(want[k].ts, f.at)
			}
		}
		require.Positive(t, late)
		require.Positive(t, unknown)

		d := runFlights(t, list, streamstest.Options{})
		require.Len(t, d.Output("late"), late)
		require.Len(t, d.Output("dlq"), unknown)
		var got, expected []string
		for _, r := range d.Output("totals") {
			got = append(got, r.String())
		}
		for k, r := range want {
			var state string
			var start int64
			_, err := fmt.Sscan(k, &state, &start)
			require.NoError(t, err)
			expected = append(expected, fmt.Sprintf(
				`%s {"window_start":%d,"window_end":%d,"flights":%d,"delay":%d} @%d`,
				state, start, start+day, r.count, r.sum, r.ts))
		}
		slices.Sort(got)
		slices.Sort(expected)
		require.Equal(t, expected, got)
	}
}

// TestTwoStagesAnyInterleaving runs the same input with tasks, batches, commits and crashes chosen
// at random: every byte that leaves the topology is the same, lane headers included.
func TestTwoStagesAnyInterleaving(t *testing.T) {
	list := flights(400, rand.New(rand.NewPCG(9, 1)))
	want := lanes(t, runFlights(t, list, streamstest.Options{}))
	for seed := range uint64(25) {
		o := streamstest.Options{Rand: rand.New(rand.NewPCG(seed, 2)), Batch: 1 + int(seed)*3}
		if seed%2 == 1 {
			o.CrashEvery = 20
		}
		requireSame(t, want, lanes(t, runFlights(t, list, o)), fmt.Sprint("seed ", seed))
	}
	requireSame(t, want, lanes(t, runFlights(t, list, streamstest.Options{Batch: 1})), "batch 1")
}
