package streamstest_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// everything is a topology with all that can disturb the order of output: two sources with
// disorder, a fan-out whose branches meet again in one sink and in one merge, windows behind
// windows on both sides of a repartition topic, failing and late records.
func everything() *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "all",
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	stamp := func(rec *operator.Record) (int64, error) {
		return strconv.ParseInt(string(rec.Value), 10, 64)
	}
	b.Source("a", "a", topology.SourceOptions{Disorder: 20 * time.Millisecond, Timestamp: stamp})
	b.Source("b", "b", topology.SourceOptions{Disorder: 7 * time.Millisecond, Timestamp: stamp})
	b.Merge("in", "a", "b")
	b.FlatMap("twice", "in", func(rec *operator.Record, emit func(operator.Record)) error {
		emit(*rec)
		if rec.Timestamp%3 == 0 {
			rec.Value = append([]byte("x"), rec.Value...)
			emit(*rec)
		}
		return nil
	})
	b.Branch("sides", "twice", []operator.Case{
		{Name: "odd", When: func(r *operator.Record) (bool, error) { return r.Timestamp%2 == 1, nil }},
		{Name: "even"}})
	b.Filter("few", "sides.even", func(r *operator.Record) (bool, error) {
		return r.Timestamp%5 != 0, nil
	})
	b.Merge("again", "few", "sides.odd")
	count := []aggregate.Field{{Name: "n"}}
	b.Aggregate("first", "again", aggregate.Options{Windows: window.Windows{Size: 20, Advance: 10},
		Grace: 5 * time.Millisecond, Emit: aggregate.OnClose, Fields: count})
	b.Aggregate("second", "first", aggregate.Options{Windows: window.Windows{Size: 50, Advance: 50},
		Grace: 5 * time.Millisecond, Emit: aggregate.OnClose, Fields: count})
	b.Aggregate("updates", "sides.even", aggregate.Options{Fields: count, Unbounded: true})
	for i, from := range []string{"twice", "first", "second", "updates", "sides.odd"} {
		b.Sink(fmt.Sprint("out", i), from, "out", topology.SinkOptions{})
	}
	b.KeyBy("moved", "first", topology.KeyByOptions{Partitions: 2,
		Key: func(r *operator.Record) ([]byte, error) { return r.Key[:1], nil }})
	b.Aggregate("third", "moved", aggregate.Options{Windows: window.Windows{Size: 30, Advance: 30},
		Emit: aggregate.OnClose, Fields: count})
	b.Sink("end", "third", "end", topology.SinkOptions{})
	b.Sink("moved-out", "moved", "end", topology.SinkOptions{})
	return b
}

// everythingInput is what the tests feed to it.
func everythingInput() (list []fed) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for i := range int64(300) {
		ts := max(0, i-rnd.Int64N(30))
		value := strconv.FormatInt(ts, 10)
		if rnd.IntN(20) == 0 {
			value = "bad"
		}
		r := record.Record{Key: fmt.Appendf(nil, "k%d", rnd.IntN(5)), Value: []byte(value),
			Headers: []record.Header{{Key: "n", Value: fmt.Append(nil, i)}}}
		topic := []string{"a", "b"}[rnd.IntN(2)]
		list = append(list, fed{topic, rnd.Int32N(2), r})
	}
	return list
}

func runEverything(t *testing.T, o streamstest.Options) map[string][]string {
	o.Partitions = map[string]int32{"a": 2, "b": 2}
	d, err := streamstest.New(everything(), o)
	require.NoError(t, err)
	for _, f := range everythingInput() {
		d.Feed(f.topic, f.partition, f.record)
	}
	d.EndOfInput()
	require.NoError(t, d.Run())
	require.True(t, d.Done())
	return lanesOf(t, d, map[string]int32{"out": 1, "end": 1, "dlq": 1})
}

// TestEverythingAnyInterleaving is TestTwoStagesAnyInterleaving for the topology above.
func TestEverythingAnyInterleaving(t *testing.T) {
	want := runEverything(t, streamstest.Options{})
	require.Greater(t, len(want["dlq-0 by all.a.0"]), 5)
	require.Greater(t, len(want["out-0 by all.a.0"]), 100)
	require.NotEmpty(t, want["end-0 by all.moved.0"])
	for seed := range uint64(40) {
		o := streamstest.Options{Rand: rand.New(rand.NewPCG(seed, 2)), Batch: 1 + int(seed)*2}
		if seed%2 == 1 {
			o.CrashEvery = 10
		}
		requireSame(t, want, runEverything(t, o), fmt.Sprint("seed ", seed))
	}
	requireSame(t, want, runEverything(t, streamstest.Options{Batch: 1}), "batch 1")
}
