package task

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// benchBatch is the number of records handed over at once.
const benchBatch = 1024

// benchCore drives a core over a source of one partition; every op of the benchmark is a batch.
// Records with a negative timestamp get one that rises by 1 ms per record.
func benchCore(b *testing.B, build func(*topology.Builder), recs []record.Record) {
	builder := topology.NewBuilder(topology.Options{App: "bench"})
	builder.Source("in", "in", topology.SourceOptions{})
	build(builder)
	topo, err := builder.Build(func(string) int32 { return 1 })
	require.NoError(b, err)
	db, err := state.Open(state.Options{})
	require.NoError(b, err)
	c, err := NewCore(CoreOptions{Topology: topo, Sub: topo.Subs[0], Stores: db})
	require.NoError(b, err)
	var outs []Output
	next := int64(0)
	moving := recs[0].Timestamp < 0
	b.ReportAllocs()
	for b.Loop() {
		at := int(next) % len(recs)
		batch := recs[at : at+benchBatch]
		for i := range batch {
			batch[i].Offset = next
			if moving {
				batch[i].Timestamp = next
			}
			next++
		}
		require.NoError(b, c.Add("in", 0, batch, next))
		n, err := c.Run(benchBatch)
		if err != nil || n != benchBatch {
			b.Fatal(n, err)
		}
		outs = c.TakeOutputs(outs[:0])
	}
	b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "records/s")
}

func coreBenchRecords(n int) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Timestamp: int64(i), Key: fmt.Appendf(nil, "key-%05d", i*7919%10_000),
			Value: []byte(`{"id":1,"amount":17,"country":"NO","note":"some more bytes to carry"}`)}
	}
	return recs
}

// BenchmarkCoreFilterChain is source, two filters, a map and a sink; half of the records pass.
func BenchmarkCoreFilterChain(b *testing.B) {
	benchCore(b, func(t *topology.Builder) {
		t.Filter("odd", "in", func(r *operator.Record) (bool, error) {
			return r.Raw.Offset%2 == 1, nil
		})
		t.Filter("all", "odd", func(r *operator.Record) (bool, error) {
			return bytes.Contains(r.Value, []byte("amount")), nil
		})
		t.Map("same", "all", func(*operator.Record) error { return nil })
		t.Sink("out", "same", "out", topology.SinkOptions{})
	}, coreBenchRecords(64*benchBatch))
}

// BenchmarkCoreTumblingCount counts 10 000 keys in windows that hold all records, emitting on
// close: one row updated per record.
func BenchmarkCoreTumblingCount(b *testing.B) {
	benchCore(b, func(t *topology.Builder) {
		t.Aggregate("n", "in", aggregate.Options{Windows: window.Tumbling(time.Hour),
			Emit: aggregate.OnClose, Fields: []aggregate.Field{{Name: "n"}}})
		t.Sink("out", "n", "out", topology.SinkOptions{})
	}, coreBenchRecords(64*benchBatch))
}

// BenchmarkCoreTumblingCountOnUpdate is the same with a result per record.
func BenchmarkCoreTumblingCountOnUpdate(b *testing.B) {
	benchCore(b, func(t *topology.Builder) {
		t.Aggregate("n", "in", aggregate.Options{Windows: window.Tumbling(time.Hour),
			Fields: []aggregate.Field{{Name: "n"}}})
		t.Sink("out", "n", "out", topology.SinkOptions{})
	}, coreBenchRecords(64*benchBatch))
}

// BenchmarkCoreWindows counts 10 000 keys in windows of other kinds, a record every 10 s per key,
// and counts different values.
func BenchmarkCoreWindows(b *testing.B) {
	distinct := aggregate.Field{Name: "d", Func: aggregate.Distinct,
		Value: func(r *operator.Record) (aggregate.Value, error) {
			return aggregate.IntValue(r.Timestamp % 100), nil
		}}
	approx := distinct
	approx.Func = aggregate.ApproxDistinct
	count := aggregate.Field{Name: "n"}
	for name, o := range map[string]aggregate.Options{
		"session": {Windows: window.Sessions(15 * time.Second), Fields: []aggregate.Field{count}},
		"sliding": {Windows: window.SlidingBy(30 * time.Second), Fields: []aggregate.Field{count}},
		"count":   {Windows: window.Counted(10), Fields: []aggregate.Field{count}},
		"hopping": {Windows: window.Hopping(time.Minute, 15*time.Second),
			Fields: []aggregate.Field{count}},
		"distinct": {Windows: window.Tumbling(time.Hour), Fields: []aggregate.Field{distinct}},
		"approx":   {Windows: window.Tumbling(time.Hour), Fields: []aggregate.Field{approx}},
	} {
		b.Run(name, func(b *testing.B) {
			recs := coreBenchRecords(64 * benchBatch)
			for i := range recs {
				recs[i].Timestamp = -1
			}
			benchCore(b, func(t *topology.Builder) {
				o.Emit, o.Unbounded = aggregate.OnClose, true
				t.Aggregate("n", "in", o)
				t.Sink("out", "n", "out", topology.SinkOptions{})
			}, recs)
		})
	}
}

// BenchmarkCoreKeyBy writes every record to a repartition topic.
func BenchmarkCoreKeyBy(b *testing.B) {
	benchCore(b, func(t *topology.Builder) {
		t.KeyBy("by", "in", topology.KeyByOptions{Partitions: 8,
			Key: func(r *operator.Record) ([]byte, error) { return r.Value[8:18], nil }})
		t.Sink("out", "by", "out", topology.SinkOptions{})
	}, coreBenchRecords(64*benchBatch))
}

// BenchmarkCoreMerge takes records of many writers in turns, as behind a repartition topic.
func BenchmarkCoreMerge(b *testing.B) {
	for _, writers := range []int32{6, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) { benchMerge(b, writers) })
	}
}

func benchMerge(b *testing.B, writers int32) {
	builder := topology.NewBuilder(topology.Options{App: "bench"})
	builder.Source("in", "in", topology.SourceOptions{})
	builder.KeyBy("by", "in", topology.KeyByOptions{Partitions: 1,
		Key: func(r *operator.Record) ([]byte, error) { return r.Key, nil }})
	builder.Sink("out", "by", "out", topology.SinkOptions{})
	topo, err := builder.Build(func(string) int32 { return writers })
	require.NoError(b, err)
	c, err := NewCore(CoreOptions{Topology: topo, Sub: topo.Subs[1]})
	require.NoError(b, err)
	recs := coreBenchRecords(64 * benchBatch)
	names := topo.Subs[1].Sources[0].Writers
	for i := range recs {
		recs[i].Headers = []record.Header{{Key: LaneHeader}}
	}
	next := int64(0)
	var outs []Output
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		at := int(next) % len(recs)
		batch := recs[at : at+benchBatch]
		for i := range batch {
			batch[i].Offset, batch[i].Timestamp = next, next
			next++
			batch[i].Headers[0].Value = AppendLane(nil,
				Lane{Writer: names[int(next)%len(names)], Seq: next, W: next})
		}
		b.StartTimer()
		require.NoError(b, c.Add(topo.Subs[1].Sources[0].Topic, 0, batch, next))
		if _, err := c.Run(2 * benchBatch); err != nil {
			b.Fatal(err)
		}
		outs = c.TakeOutputs(outs[:0])
	}
	b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkCoreCheckpoints counts keys in tumbling windows with the state in a file: a commit every
// 200 ms, whose changed rows are copied as for the changelog, and a flush every 5 s.
func BenchmarkCoreCheckpoints(b *testing.B) {
	for _, keys := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) { benchCheckpoints(b, keys) })
	}
}

func benchCheckpoints(b *testing.B, keys int) {
	builder := topology.NewBuilder(topology.Options{App: "bench"})
	builder.Source("in", "in", topology.SourceOptions{})
	builder.Aggregate("n", "in", aggregate.Options{Windows: window.Tumbling(time.Hour),
		Emit: aggregate.OnClose, Fields: []aggregate.Field{{Name: "n"}}})
	builder.Sink("out", "n", "out", topology.SinkOptions{})
	topo, err := builder.Build(func(string) int32 { return 1 })
	require.NoError(b, err)
	db, err := state.Open(state.Options{Path: filepath.Join(b.TempDir(), "db"),
		Identity: state.Identity{Task: "t"}, Budget: state.NewBudget(512 << 20)}) // as a server has
	require.NoError(b, err)
	c, err := NewCore(CoreOptions{Topology: topo, Sub: topo.Subs[0], Stores: db})
	require.NoError(b, err)
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "key-%07d", i)
	}
	value, committed, next := []byte(`{"n":1}`), time.Now(), int64(0)
	var copies slab
	for b.Loop() {
		batch := make([]record.Record, benchBatch)
		for i := range batch {
			batch[i] = record.Record{Offset: next, Timestamp: next / 1000, Value: value,
				Key: names[uint64(next)*11400714819323198485>>20%uint64(keys)]}
			next++
		}
		require.NoError(b, c.Add("in", 0, batch, next))
		if n, err := c.Run(benchBatch); err != nil || n != benchBatch {
			b.Fatal(n, err)
		}
		if now := time.Now(); now.Sub(committed) > 200*time.Millisecond {
			require.NoError(b, db.Changes(func(key, value []byte) error {
				copies.copy(key)
				copies.copy(value)
				return nil
			}))
			require.NoError(b, db.Commit(now, state.Meta{Next: next, Commit: c.Snapshot()}))
			committed = now
		}
	}
	b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "records/s")
	require.NoError(b, db.Close())
}
