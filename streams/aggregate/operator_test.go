package aggregate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// event is one record of the property test and the windows that took it.
type event struct {
	key   string
	ts    int64
	val   int64
	taken []int64
}

// brute computes what an aggregate must emit, from its definition: nothing of it is shared with
// the code under test. It keeps all records and recomputes every window from them.
type brute struct {
	w      window.Windows
	grace  int64
	onEnd  bool // emit on close
	all    []event
	s      int64
	late   int
	closed map[int64]bool // starts emitted
}

// windows lists the starts of the windows of ts by trying every aligned start.
func (b *brute) windows(ts int64) (starts []int64) {
	for start := -20 * b.w.Size; start <= ts; start++ {
		aligned := ((start-b.w.Offset)%b.w.Advance+b.w.Advance)%b.w.Advance == 0
		if aligned && ts < start+b.w.Size {
			starts = append(starts, start)
		}
	}
	for len(starts) > 1 && starts[0] < 0 && starts[len(starts)-1] >= 0 {
		starts = starts[1:]
	}
	return starts
}

// row is the result of one key in one window over the records accepted so far.
func (b *brute) row(start int64, key string) string {
	var count, sum, ts int64
	least, most := int64(1<<62), int64(-1<<62)
	for _, e := range b.all {
		if e.key != key || !slices.Contains(e.taken, start) {
			continue
		}
		count, sum, ts = count+1, sum+e.val, max(ts, e.ts)
		least, most = min(least, e.val), max(most, e.val)
	}
	avg := fmt.Sprint(float64(sum) / float64(count))
	return fmt.Sprintf(`%s {"window_start":%d,"window_end":%d,"n":%d,"sum":%d,"min":%d,"max":%d,`+
		`"avg":%s} @%d`, key, start, start+b.w.Size, count, sum, least, most, avg, ts)
}

// feed takes the next record and returns what comes out.
func (b *brute) feed(e event) (out []string) {
	b.s = max(b.s, e.ts)
	out = b.close()
	missed := false
	for _, start := range b.windows(e.ts) {
		if b.s >= start+b.w.Size+b.grace {
			missed = true
		} else {
			e.taken = append(e.taken, start)
		}
	}
	if missed {
		b.late++
	}
	b.all = append(b.all, e)
	if !b.onEnd {
		for _, start := range e.taken {
			out = append(out, b.row(start, e.key))
		}
	}
	return out
}

// close emits the windows that are due by (end, start, key).
func (b *brute) close() (out []string) {
	if !b.onEnd {
		return nil
	}
	type due struct {
		start int64
		key   string
	}
	var list []due
	for _, e := range b.all {
		for _, start := range e.taken {
			d := due{start, e.key}
			if !b.closed[start] && b.s >= start+b.w.Size+b.grace && !slices.Contains(list, d) {
				list = append(list, d)
			}
		}
	}
	slices.SortFunc(list, func(x, y due) int {
		if x.start != y.start {
			return int(x.start - y.start)
		}
		return strings.Compare(x.key, y.key)
	})
	for _, d := range list {
		out = append(out, b.row(d.start, d.key))
		b.closed[d.start] = true
	}
	return out
}

// TestWindowsAgainstBruteForce draws windows, grace, emit, records and crashes.
func TestWindowsAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &brute{w: window.Windows{Size: rapid.Int64Range(1, 20).Draw(t, "size")},
			closed: map[int64]bool{}, s: operator.NoTime}
		b.w.Advance = b.w.Size
		if rapid.Bool().Draw(t, "hopping") {
			b.w.Advance = rapid.Int64Range(1, b.w.Size).Draw(t, "advance")
		}
		b.w.Offset = rapid.Int64Range(-5, 5).Draw(t, "offset")
		b.grace = rapid.Int64Range(0, 15).Draw(t, "grace")
		b.onEnd = rapid.Bool().Draw(t, "on close")
		o := aggregate.Options{Windows: b.w, Grace: time.Duration(b.grace) * time.Millisecond,
			Fields: fields()}
		if b.onEnd {
			o.Emit = aggregate.OnClose
		}
		var events []event
		now := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "records") {
			now += rapid.Int64Range(0, 8).Draw(t, "step")
			events = append(events, event{
				key: rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "key"),
				ts:  max(0, now-rapid.Int64Range(0, 30).Draw(t, "back")),
				val: rapid.Int64Range(-9, 9).Draw(t, "value")})
		}

		d := start(t, o)
		crash := rapid.Bool().Draw(t, "crash")
		var want []string
		for i, e := range events {
			want = append(want, b.feed(e)...)
			d.Feed("in", 0, record.Record{Key: []byte(e.key), Timestamp: e.ts,
				Value: fmt.Append(nil, e.val)})
			if rapid.Bool().Draw(t, "run") || i == len(events)-1 {
				require.NoError(t, d.Run())
				if crash {
					require.NoError(t, d.Crash())
				}
			}
		}
		var got []string
		for _, r := range d.Output("out") {
			got = append(got, r.String())
		}
		require.Equal(t, want, got)
		require.Len(t, d.Output("late"), b.late)
	})
}

// fields are all functions over the value of a record.
func fields() []aggregate.Field {
	value := func(rec *operator.Record) (aggregate.Value, error) {
		var n int64
		_, err := fmt.Sscan(string(rec.Value), &n)
		return aggregate.IntValue(n), err
	}
	return []aggregate.Field{{Name: "n"}, {Name: "sum", Func: aggregate.Sum, Value: value},
		{Name: "min", Func: aggregate.Min, Value: value},
		{Name: "max", Func: aggregate.Max, Value: value},
		{Name: "avg", Func: aggregate.Avg, Value: value}}
}

// start runs in -> aggregate -> out; late records go to late.
func start(t require.TestingT, o aggregate.Options) *streamstest.Driver {
	o.Late = operator.LatePolicy{Action: operator.LateSide, Topic: "late"}
	b := topology.NewBuilder(topology.Options{App: "t",
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("in", "in", topology.SourceOptions{})
	o.Unbounded = true
	b.Aggregate("agg", "in", o)
	b.Sink("out", "agg", "out", topology.SinkOptions{})
	d, err := streamstest.New(b, streamstest.Options{})
	require.NoError(t, err)
	return d
}

// A field that cannot be computed fails the record for all windows and fields.
func TestRecordIsAddedWholeOrNotAtAll(t *testing.T) {
	d := start(t, aggregate.Options{Windows: window.Windows{Size: 10, Advance: 5}, Fields: fields()})
	d.Send("in", "a", "1", 12)
	d.Send("in", "a", "one", 13)
	d.Send("in", "a", "2", 14)
	require.NoError(t, d.Run())
	require.Len(t, d.Output("out"), 4)
	require.Contains(t, d.Output("out")[2].String(), `"n":2,"sum":3`)
	require.Len(t, d.Output("dlq"), 1)
	why, _ := d.Output("dlq")[0].Header(operator.HeaderDLQError)
	require.Contains(t, string(why), "field sum: ")
}

func TestNullValueIsIgnoredAndCounted(t *testing.T) {
	d := start(t, aggregate.Options{Windows: window.Tumbling(10 * time.Millisecond),
		Fields: []aggregate.Field{{Name: "n"}}})
	d.Send("in", "a", "", 1) // null
	d.Send("in", "a", "x", 2)
	require.NoError(t, d.Run())
	require.Len(t, d.Output("out"), 1)
	require.Empty(t, d.Output("dlq"))
	for _, s := range d.Stats() {
		if s.Step == "agg" {
			require.EqualValues(t, 2, s.In.Load())
			require.EqualValues(t, 1, s.Out.Load())
			require.EqualValues(t, 1, s.Ignored.Load())
		}
	}
}

// A result that cannot be made goes to the policy of the step, as any record.
func TestFailingResult(t *testing.T) {
	o := aggregate.Options{Windows: window.Tumbling(10 * time.Millisecond), Emit: aggregate.OnClose,
		Fields: []aggregate.Field{{Name: "n"}},
		Result: func(rec *operator.Record, v []aggregate.Value) error {
			if v[0].Int > 1 {
				return fmt.Errorf("%d is too many", v[0].Int)
			}
			rec.SetValue(v[0].AppendJSON(nil))
			return nil
		}}
	d := start(t, o)
	d.Send("in", "a", "x", 1)
	d.Send("in", "b", "x", 1)
	d.Send("in", "b", "x", 2)
	d.Send("in", "c", "x", 10)
	require.NoError(t, d.Run())
	require.Equal(t, "[a 1 @1]", fmt.Sprint(d.Output("out")))
	require.Equal(t, "[b ∅ @2]", fmt.Sprint(d.Output("dlq")))
	step, _ := d.Output("dlq")[0].Header(operator.HeaderDLQTopic)
	require.Empty(t, step, "it was never read from a topic")
}

func TestOptionsValidate(t *testing.T) {
	n := []aggregate.Field{{Name: "n"}}
	tumbling := window.Tumbling(time.Second)
	for want, o := range map[string]aggregate.Options{
		"no fields":               {},
		"field 0 has no name":     {Fields: []aggregate.Field{{}}},
		`two fields are called`:   {Fields: []aggregate.Field{{Name: "n"}, {Name: "n"}}},
		`"s": sum of what?`:       {Fields: []aggregate.Field{{Name: "s", Func: aggregate.Sum}}},
		"unknown function 99":     {Fields: []aggregate.Field{{Name: "s", Func: 99}}},
		"emit on close needs":     {Fields: n, Emit: aggregate.OnClose},
		"grace needs windows":     {Fields: n, Grace: 1},
		"must not be negative":    {Fields: n, Windows: tumbling, Grace: -1},
		"size is 0 ms":            {Fields: n, Windows: window.Tumbling(time.Microsecond)},
		"need 1 to size (1000)":   {Fields: n, Windows: window.Windows{Size: 1000, Advance: 1001}},
		"invalid window: size is": {Fields: n, Windows: window.Windows{Size: -1, Advance: 1}},
	} {
		require.ErrorContains(t, o.Validate(), want)
	}
	o := aggregate.Options{Fields: n, Windows: tumbling}
	require.NoError(t, o.Validate())
}
