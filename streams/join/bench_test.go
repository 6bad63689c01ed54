package join_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// runBench gives a step batches of 1024 records, a millisecond apart, alternating between its
// inputs, with state in memory that is committed every 64 batches.
func runBench(b *testing.B, op operator.Operator, keys int) {
	db, err := state.Open(state.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := operator.NewContext(operator.ContextOptions{Step: "j", Stores: db,
		StreamTime: operator.NoTime})
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "customer-%08d", i)
	}
	value := make([]byte, 150)
	var in, out operator.Batch
	n, batches := int64(0), 0
	b.ReportAllocs()
	for b.Loop() {
		in.Reset()
		out.Reset()
		in.Steps = in.Steps[:0]
		for range 1024 {
			n++
			in.Records = append(in.Records, operator.Record{Key: names[int(n/2*7919)%keys],
				Value: value, Timestamp: n, StreamTime: n, Order: 2*n + 1, Input: int32(n & 1)})
			in.Steps = append(in.Steps, operator.TimeStep{Time: n, Order: 2 * n})
		}
		in.StreamTime = n
		if err := op.Process(ctx, &in, &out); err != nil {
			b.Fatal(err)
		}
		if batches++; batches%64 == 0 {
			if err := db.Commit(time.Time{}, state.Meta{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rec/s")
}

// BenchmarkStreams joins within 2 s. With "long grace" a record stays for a minute, and must cost
// no more; with "hot key" all records have one of two keys, and none of the other side is near.
func BenchmarkStreams(b *testing.B) {
	keep := func(out, l, _ *operator.Record) error {
		if l != nil {
			out.Value = l.Value
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		kind   join.Kind
		within time.Duration
		grace  time.Duration
		keys   int
	}{
		{"inner", join.Inner, 2 * time.Second, 0, 10_000},
		{"outer", join.Outer, 2 * time.Second, 0, 10_000},
		{"outer long grace", join.Outer, 2 * time.Second, time.Minute, 10_000},
		{"outer hot key", join.Outer, 0, time.Minute, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := join.StreamOptions{Kind: c.kind, Before: c.within, After: c.within, Grace: c.grace,
				Join: keep, Store: "j"}
			runBench(b, join.NewStreams(o)(), c.keys)
		})
	}
}

// BenchmarkTable joins a stream with a table of which every other record is a row.
func BenchmarkTable(b *testing.B) {
	take := func(rec, row *operator.Record) error { return nil }
	for _, c := range []struct {
		name           string
		history, grace time.Duration
	}{{"latest", 0, 0}, {"history", time.Minute, 0}, {"grace", time.Minute, time.Second}} {
		b.Run(c.name, func(b *testing.B) {
			o := join.TableOptions{Kind: join.Left, History: c.history, Grace: c.grace, Join: take,
				Store: "j"}
			runBench(b, join.NewTable(o)(), 10_000)
		})
	}
}

// BenchmarkTables joins two tables of 10,000 keys.
func BenchmarkTables(b *testing.B) {
	o := join.TablesOptions{Kind: join.Left, Store: "j", Join: func(out, l, _ *operator.Record) error {
		out.Value = l.Value
		return nil
	}}
	runBench(b, join.NewTables(o)(), 10_000)
}
