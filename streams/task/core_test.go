package task

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

var errTest = errors.New("test")

// coreTest is one core over a topology whose topics all have one partition.
type coreTest struct {
	t    *testing.T
	topo *topology.Topology
	sub  *topology.Sub
	db   *state.DB
	*Core
	next map[string]int64
}

// newCoreTest makes the core of the given Sub.
func newCoreTest(t *testing.T, b *topology.Builder, sub int) *coreTest {
	topo, err := b.Build(func(string) int32 { return 1 })
	require.NoError(t, err)
	db, err := state.Open(state.Options{})
	require.NoError(t, err)
	c := &coreTest{t: t, topo: topo, sub: topo.Subs[sub], db: db, next: map[string]int64{}}
	c.restart(nil)
	return c
}

func (c *coreTest) restart(snapshot []byte) {
	core, err := NewCore(CoreOptions{Topology: c.topo, Sub: c.sub, Stores: c.db,
		Snapshot: snapshot, MaxBuffered: 1000})
	require.NoError(c.t, err)
	c.Core = core
	for _, in := range core.Inputs() {
		c.next[in.Topic] = in.Offset
	}
}

// add appends a record to partition 0 of a topic and hands it over.
func (c *coreTest) add(topic, key, value string, ts int64, headers ...record.Header) {
	r := record.Record{Offset: c.next[topic], Timestamp: ts, Key: []byte(key), Value: []byte(value),
		Headers: headers}
	if key == "" {
		r.Key = nil
	}
	if value == "" {
		r.Value = nil
	}
	c.next[topic]++
	require.NoError(c.t, c.Add(topic, 0, []record.Record{r}, c.next[topic]))
}

// run processes everything and returns the values put out, control records left out.
func (c *coreTest) run() (list []string) {
	_, err := c.Run(1000)
	require.NoError(c.t, err)
	for _, o := range c.TakeOutputs(nil) {
		if !o.Control {
			list = append(list, string(o.Record.Value))
		}
	}
	return list
}

// watermarks returns what the control records say.
func (c *coreTest) watermarks() (list []Lane) {
	c.Watermarks()
	for _, o := range c.TakeOutputs(nil) {
		v, _ := o.Record.Header(LaneHeader)
		l, err := ParseLane(v)
		require.NoError(c.t, err)
		require.True(c.t, l.Control && o.Control)
		require.Nil(c.t, o.Record.Key)
		require.Nil(c.t, o.Record.Value)
		require.GreaterOrEqual(c.t, o.Record.Timestamp, int64(0))
		w, _ := o.Record.Header(operator.HeaderWatermark)
		require.Equal(c.t, strconv.FormatInt(l.W, 10), string(w))
		list = append(list, l)
	}
	return list
}

func (c *coreTest) stats(step string) *operator.Stats {
	for _, s := range c.Stats() {
		if s.Step == step {
			return s.Stats
		}
	}
	c.t.Fatalf("no step %s", step)
	return nil
}

func dataLane(writer string, seq, w int64) record.Header {
	return record.Header{Key: LaneHeader, Value: AppendLane(nil, Lane{Writer: writer, Seq: seq, W: w})}
}

func controlLane(writer string, seq, w int64, ended bool) record.Header {
	return record.Header{Key: LaneHeader, Value: AppendLane(nil,
		Lane{Writer: writer, Seq: seq, W: w, Control: true, Ended: ended, Idle: ended})}
}

// passTwo reads two sources into one topic.
func passTwo() *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "app",
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("a", "a", topology.SourceOptions{})
	b.Source("b", "b", topology.SourceOptions{})
	b.Merge("both", "a", "b")
	b.Sink("out", "both", "out", topology.SinkOptions{})
	return b
}

// keyed is source -> key_by -> out: two Subs.
func keyed() *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "app",
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("a", "a", topology.SourceOptions{})
	b.KeyBy("by", "a", topology.KeyByOptions{
		Key: func(r *operator.Record) ([]byte, error) { return r.Value[:1], nil }})
	b.Map("check", "by", func(r *operator.Record) error {
		if string(r.Value) == "xbad" {
			return errTest
		}
		return nil
	})
	b.Sink("out", "check", "out", topology.SinkOptions{})
	return b
}

func TestCoreWaitsForSlowerInput(t *testing.T) {
	c := newCoreTest(t, passTwo(), 0)
	c.add("a", "k", "a5", 5)
	c.add("a", "k", "a9", 9)
	require.Empty(t, c.run(), "b may still have anything")
	c.add("b", "k", "b6", 6)
	require.Equal(t, []string{"a5", "b6"}, c.run(), "a9 waits: b may have 7")
	require.EqualValues(t, 6, c.StreamTime())
	n, size := c.Buffered()
	require.Equal(t, 1, n)
	require.Positive(t, size)
	require.EqualValues(t, 1, c.Inputs()[0].Offset, "the first record not processed")
	require.EqualValues(t, 1, c.Inputs()[1].Offset)

	c.Idle("b", 0)
	require.Empty(t, c.run(), "idleness is no decision yet")
	require.Equal(t, []Decision{{Source: "b", At: 1, Time: 10}}, c.Decide())
	require.Equal(t, []string{"a9"}, c.run())
	c.add("b", "k", "b7", 7)
	require.Empty(t, c.run(), "b7 counts as not before 10")
	require.EqualValues(t, 9, c.StreamTime())
	c.add("a", "k", "a20", 20)
	require.Equal(t, []string{"b7"}, c.run(), "a record ends idleness and is not lost")
	require.EqualValues(t, 10, c.StreamTime())
	require.False(t, c.Done())
	c.EndOfInput("a", 0)
	c.EndOfInput("b", 0)
	require.False(t, c.Done())
	require.Equal(t, []string{"a20"}, c.run())
	require.True(t, c.Done())
	require.EqualValues(t, 20, c.StreamTime(), "windows stay open")
}

func TestCorePausesFastInputsOnly(t *testing.T) {
	c := newCoreTest(t, passTwo(), 0)
	for i := range 8 {
		c.add("a", "k", fmt.Sprintf("%0200d", i), 5)
	}
	require.Empty(t, c.run())
	require.Equal(t, []Input{{Topic: "a"}}, c.Paused(nil))
	c.add("b", "k", "b", 100)
	require.Len(t, c.run(), 8)
	require.Empty(t, c.Paused(nil))
}

func TestCoreAddIgnoresWhatItHas(t *testing.T) {
	c := newCoreTest(t, passTwo(), 0)
	recs := []record.Record{{Offset: 3, Value: []byte("x")}, {Offset: 7, Value: []byte("y")}}
	require.NoError(t, c.Add("a", 0, recs, 12)) // gaps are normal
	require.NoError(t, c.Add("a", 0, recs, 12))
	c.EndOfInput("b", 0)
	require.Equal(t, []string{"x", "y"}, c.run())
	require.EqualValues(t, 12, c.Inputs()[0].Offset)
	require.ErrorContains(t, c.Add("zzz", 0, recs, 12), "does not read zzz-0")
	c.TableReady("zzz", 0) // nothing to do with this task
	c.EndOfInput("zzz", 0)
	c.Idle("zzz", 4)
}

func TestCoreBadTimestamps(t *testing.T) {
	stamp := func(r *operator.Record) (int64, error) {
		return strconv.ParseInt(string(r.Value), 10, 64)
	}
	run := func(bad eventtime.BadTimestamp, dlq string) *coreTest {
		b := topology.NewBuilder(topology.Options{Sign: true, App: "app",
			OnError: operator.ErrorPolicy{DeadLetterTopic: dlq}})
		b.Source("a", "a", topology.SourceOptions{Timestamp: stamp, Bad: bad})
		b.Sink("out", "a", "out", topology.SinkOptions{})
		c := newCoreTest(t, b, 0)
		for _, v := range []string{"none", "10", "bad", "-5", "8"} {
			c.add("a", "k", v, 77)
		}
		return c
	}
	c := run(eventtime.BadFails, "dlq")
	_, err := c.Run(100)
	require.NoError(t, err)
	var got []string
	for _, o := range c.TakeOutputs(nil) {
		got = append(got, fmt.Sprintf("%s %s @%d", o.Topic, o.Record.Value, o.Record.Timestamp))
	}
	require.Equal(t, []string{"dlq none @77", "out 10 @10", "dlq bad @77", "dlq -5 @77", "out 8 @8"},
		got, "in the place they have in the log, with the time they were written with")
	require.EqualValues(t, 10, c.StreamTime(), "they move no time")
	require.EqualValues(t, 3, c.stats("a").DeadLetters.Load())
	require.EqualValues(t, 5, c.stats("a").In.Load())
	require.EqualValues(t, 2, c.stats("a").Out.Load())

	c = run(eventtime.BadSkip, "")
	require.Equal(t, []string{"10", "8"}, c.run())
	require.EqualValues(t, 3, c.stats("a").Dropped.Load())

	c = run(eventtime.BadPartitionTime, "dlq")
	require.Equal(t, []string{"none", "10", "bad", "-5", "8"}, c.run())
	require.EqualValues(t, 1, c.stats("a").DeadLetters.Load(), "before any other there is no time")

	c = run(eventtime.BadFails, "")
	_, err = c.Run(100)
	var stop *operator.StopError
	require.ErrorAs(t, err, &stop)
	require.Equal(t, operator.ClassTimestamp, stop.Class)
	require.EqualValues(t, 0, stop.Offset)
}

func TestCoreRepartitionLanes(t *testing.T) {
	b := keyed()
	topo, err := b.Build(func(topic string) int32 { return map[string]int32{"a": 2}[topic] })
	require.NoError(t, err)
	require.Equal(t, []string{"app.a.0", "app.a.1"}, topo.Subs[1].Sources[0].Writers)
	db, err := state.Open(state.Options{})
	require.NoError(t, err)
	c := &coreTest{t: t, topo: topo, sub: topo.Subs[1], db: db, next: map[string]int64{}}
	c.restart(nil)
	const topic = "app-by-repartition"
	c.add(topic, "x", "x1", 5, dataLane("app.a.0", 10, 5))
	c.add(topic, "x", "x2", 3, dataLane("app.a.0", 20, 8)) // eff 8: its writer was there already
	require.Empty(t, c.run())
	c.add(topic, "x", "y1", 8, dataLane("app.a.1", 7, 8))
	require.Equal(t, []string{"x1", "x2"}, c.run(),
		"at 8 the first writer goes first, and may have more")
	c.add(topic, "x", "y1", 8, dataLane("app.a.1", 7, 8))
	c.add(topic, "x", "x2", 3, dataLane("app.a.0", 15, 8))
	require.Empty(t, c.run())
	require.EqualValues(t, 2, c.stats("by").Duplicates.Load())

	c.add(topic, "x", "x3", 9, dataLane("app.a.0", 30, 9))
	require.Equal(t, []string{"y1"}, c.run())
	snapshot := c.Snapshot()
	c.add(topic, "", "", 0, controlLane("app.a.1", 7, 12, false))
	require.Equal(t, []string{"x3"}, c.run(), "a watermark of the other writer lets it go")
	require.EqualValues(t, 9, c.StreamTime())

	c.restart(snapshot) // before the watermark; x3 is read again
	require.EqualValues(t, 5, c.next[topic])
	c.add(topic, "x", "x3", 9, dataLane("app.a.0", 30, 9))
	require.Empty(t, c.run())
	c.add(topic, "", "", 0, controlLane("app.a.1", 7, 12, true))
	c.add(topic, "", "", 0, controlLane("app.a.0", 30, 12, true))
	require.Equal(t, []string{"x3"}, c.run())
	require.True(t, c.Done())
}

func TestCoreForeignRecordInRepartitionTopic(t *testing.T) {
	c := newCoreTest(t, keyed(), 1)
	const topic = "app-by-repartition"
	c.add(topic, "x", "no lane", 5)
	c.add(topic, "x", "x1", 5, dataLane("app.a.0", 10, 5))
	c.add(topic, "x", "other", 5, dataLane("else.a.0", 10, 5))
	require.Equal(t, []string{"x1"}, c.run())
	require.EqualValues(t, 2, c.stats("by").DeadLetters.Load())
}

// A dead letter behind a repartition topic has the bytes and the place of the source record.
func TestCoreDeadLetterBehindRepartition(t *testing.T) {
	up := newCoreTest(t, keyed(), 0)
	up.add("a", "original key", "xbad", 5, record.Header{Key: "h", Value: []byte("1")},
		record.Header{Key: LaneHeader, Value: []byte("of a connector")})
	_, err := up.Run(10)
	require.NoError(t, err)
	out := up.TakeOutputs(nil)
	require.Len(t, out, 1)
	require.Equal(t, "x", string(out[0].Record.Key))

	down := newCoreTest(t, keyed(), 1)
	require.NoError(t, down.Add(out[0].Topic, 0, []record.Record{out[0].Record}, 1))
	_, err = down.Run(10)
	require.NoError(t, err)
	dead := down.TakeOutputs(nil)
	require.Len(t, dead, 1)
	require.Equal(t, "dlq", dead[0].Topic)
	r := dead[0].Record
	require.Equal(t, "original key xbad", string(r.Key)+" "+string(r.Value))
	require.EqualValues(t, 5, r.Timestamp)
	require.Equal(t, "h", r.Headers[0].Key)
	for name, want := range map[string]string{operator.HeaderDLQTopic: "a",
		operator.HeaderDLQOffset: "0", operator.HeaderDLQStep: "check",
		operator.HeaderDLQClass: operator.ClassOperator} {
		got, _ := r.Header(name)
		require.Equal(t, want, string(got), name)
	}
}

func TestCoreWatermarks(t *testing.T) {
	c := newCoreTest(t, keyed(), 0)
	require.Empty(t, c.watermarks(), "no time yet")
	c.add("a", "k", "v", 5)
	c.run()
	seq := c.out.seq
	require.Equal(t, []Lane{{Writer: "app.a.0", Seq: seq, W: 5, Control: true}}, c.watermarks())
	require.Empty(t, c.watermarks(), "told already")
	c.restart(c.Snapshot())
	require.Empty(t, c.watermarks(), "told before the restart")
	c.add("a", "k", "v", 3)
	c.run()
	require.Empty(t, c.watermarks(), "time did not move")
	c.EndOfInput("a", 0)
	c.run()
	require.Equal(t, []Lane{{Writer: "app.a.0", Seq: c.out.seq, W: 5, Control: true, Ended: true,
		Idle: true}}, c.watermarks())
}

// The number of an output must not depend on when rows of a table arrived.
func TestCoreSequenceSurvivesTableTiming(t *testing.T) {
	build := func() *topology.Builder {
		b := topology.NewBuilder(topology.Options{Sign: true, App: "app"})
		b.Source("a", "a", topology.SourceOptions{})
		b.Table("t", "t", topology.TableOptions{})
		b.Join("j", "a", "t", join.Options{Join: func(r *operator.Record, _ any) error { return nil }})
		b.Sink("out", "j", "out", topology.SinkOptions{})
		return b
	}
	run := func(early bool) Output {
		c := newCoreTest(t, build(), 0)
		c.add("a", "k1", "first", 5)
		require.Empty(t, c.run(), "the table was not read yet")
		c.TableReady("t", 0)
		if early {
			c.add("t", "k1", "row", 0)
		}
		c.run()
		c.add("t", "k2", "row", 0)
		c.add("a", "k2", "second", 6)
		_, err := c.Run(10)
		require.NoError(t, err)
		outs := c.TakeOutputs(nil)
		return outs[len(outs)-1]
	}
	require.Equal(t, run(false), run(true))
}

func TestCoreTable(t *testing.T) {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "app",
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("a", "a", topology.SourceOptions{})
	b.Table("t", "t", topology.TableOptions{Decode: func(_, v []byte) (any, error) {
		return strconv.Atoi(string(v))
	}})
	b.Join("j", "a", "t", join.Options{Join: func(r *operator.Record, right any) error {
		r.SetValue(fmt.Append(nil, string(r.Value), "+", right))
		return nil
	}})
	b.Sink("out", "j", "out", topology.SinkOptions{})
	c := newCoreTest(t, b, 0)
	c.add("t", "k", "1", 0)
	c.add("t", "k", "one", 0)
	c.add("t", "", "2", 0)
	c.add("a", "k", "x", 1)
	c.add("a", "other", "y", 1)
	n, err := c.Run(10)
	require.NoError(t, err)
	require.Zero(t, n, "more rows of the table may come")
	c.TableReady("t", 0)
	c.TableReady("t", 0)
	_, err = c.Run(10)
	require.NoError(t, err)
	var got []string
	for _, o := range c.TakeOutputs(nil) {
		got = append(got, fmt.Sprint(o.Topic, " ", string(o.Record.Value), " ", o.Control))
	}
	require.Equal(t, []string{"dlq one true", "dlq 2 true", "out x+1 false"}, got,
		"a row that cannot be read leaves the old one; rows are outside the sequence")
	require.EqualValues(t, 3, c.stats("t").In.Load())
	c.restart(c.Snapshot())
	c.add("a", "k", "z", 1)
	require.Equal(t, []string{"z+1"}, c.run(), "a table that was ready stays ready")
}

func TestCoreStopKeepsNothing(t *testing.T) {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "app"})
	b.Source("a", "a", topology.SourceOptions{})
	b.Map("check", "a", func(r *operator.Record) error { return errTest })
	b.Sink("out", "check", "out", topology.SinkOptions{})
	c := newCoreTest(t, b, 0)
	c.add("a", "k", "v", 1)
	_, err := c.Run(10)
	require.ErrorIs(t, err, errTest)
	require.ErrorContains(t, err, "step check, record a-0@0: test (class operator)")
}

func TestCoreNeedsItsTopics(t *testing.T) {
	topo, err := passTwo().Build(func(string) int32 { return 1 })
	require.NoError(t, err)
	_, err = NewCore(CoreOptions{Topology: topo, Sub: topo.Subs[0],
		Partitions: func(string) int32 { return 0 }})
	require.ErrorContains(t, err, `step out writes to topic "out", which does not exist`)
	require.ErrorContains(t, err, `step a writes to topic "dlq", which does not exist`)
}

func TestCoreSnapshotOfAnotherTask(t *testing.T) {
	c := newCoreTest(t, passTwo(), 0)
	for _, bad := range []string{"", "{", `{"v":2,"writer":"app.a.0"}`, `{"v":1,"writer":"app.a.1"}`} {
		_, err := NewCore(CoreOptions{Topology: c.topo, Sub: c.sub, Snapshot: []byte(bad)})
		require.ErrorIs(t, err, ErrSnapshot, bad)
	}
}

func FuzzCoreRestore(f *testing.F) {
	topo, err := passTwo().Build(func(string) int32 { return 1 })
	require.NoError(f, err)
	core, err := NewCore(CoreOptions{Topology: topo, Sub: topo.Subs[0]})
	require.NoError(f, err)
	f.Add(core.Snapshot())
	f.Add([]byte(`{"v":1,"writer":"app.a.0","inputs":[{"t":"a","p":0,"o":-5,"lanes":[{}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := NewCore(CoreOptions{Topology: topo, Sub: topo.Subs[0], Snapshot: b})
		if err != nil {
			require.ErrorIs(t, err, ErrSnapshot)
			return
		}
		_, err = c.Run(10)
		require.NoError(t, err)
		c.Snapshot()
	})
}

// The results of windows that became due at different times come out in that order, also when one
// record moves time past all of them, and reach windows behind them in time.
func TestCoreWindowsBehindWindows(t *testing.T) {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "app", CloseAtEnd: true})
	b.Source("a", "a", topology.SourceOptions{})
	count := []aggregate.Field{{Name: "n"}}
	b.Aggregate("ten", "a", aggregate.Options{Windows: window.Tumbling(10 * time.Millisecond),
		Emit: aggregate.OnClose, Fields: count})
	b.Aggregate("twenty", "ten", aggregate.Options{Windows: window.Tumbling(20 * time.Millisecond),
		Emit: aggregate.OnClose, Fields: count})
	b.Sink("out10", "ten", "out", topology.SinkOptions{})
	b.Sink("out20", "twenty", "out", topology.SinkOptions{})
	c := newCoreTest(t, b, 0)
	for _, ts := range []int64{1, 2, 11, 25, 99} {
		c.add("a", "k", "v", ts)
	}
	c.EndOfInput("a", 0)
	require.Equal(t, []string{
		`{"window_start":0,"window_end":10,"n":2}`,
		`{"window_start":10,"window_end":20,"n":1}`,
		`{"window_start":0,"window_end":20,"n":2}`,
		`{"window_start":20,"window_end":30,"n":1}`,
		`{"window_start":20,"window_end":40,"n":1}`,
		`{"window_start":90,"window_end":100,"n":1}`,
		`{"window_start":80,"window_end":100,"n":1}`,
	}, c.run())
	require.True(t, c.Done())
	require.Equal(t, operator.EndOfTime, c.StreamTime())
	require.Zero(t, c.stats("twenty").Late.Load())
}
