package streamstest_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/gate"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// scheduled are the pipelines of TestAnyScheduleGivesTheSameBytes that nothing else needs: between
// them and those of the other files, every step with state is there.
func scheduled() []deterministic {
	return []deterministic{
		{name: "stream joins", build: streamJoins,
			partitions: map[string]int32{"orders": 2, "payments": 2},
			input:      paid(260), outputs: map[string]int32{"out": 1, "dlq": 1, "late": 1}},
		{name: "sessions and gates", build: sessionsAndGates,
			partitions: map[string]int32{"clicks": 3}, input: clicks(260),
			outputs: map[string]int32{"out": 1, "dlq": 1, "late": 1}},
		{name: "stream-table joins", build: tableJoins,
			partitions: map[string]int32{"orders": 2, "users": 2}, input: withUsers(260),
			outputs: map[string]int32{"out": 1, "late": 1}},
		{name: "tables", build: tablesOfTables,
			partitions: map[string]int32{"left": 2, "right": 2, "far": 3}, input: upserts(220),
			outputs: map[string]int32{"out": 1}},
	}
}

// sameKey moves records through a repartition topic without another key; one without a key fails.
func sameKey(r *operator.Record) ([]byte, error) { return r.Key, nil }

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

var lateAside = operator.LatePolicy{Action: operator.LateSide, Topic: "late"}

// streamJoins joins two streams in all three ways, with themselves, and what came of that again
// behind a repartition topic.
func streamJoins() *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "sj", CloseAtEnd: true,
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("orders", "orders", topology.SourceOptions{Disorder: millis(12)})
	b.Source("payments", "payments", topology.SourceOptions{Disorder: millis(5),
		MaxSkew: millis(200)})
	with := func(kind join.Kind, before, after, grace int) join.StreamOptions {
		return join.StreamOptions{Kind: kind, Join: showPair, Late: lateAside,
			Before: millis(before), After: millis(after), Grace: millis(grace)}
	}
	b.JoinStreams("inner", "orders", "payments", with(join.Inner, 0, 20, 10))
	b.JoinStreams("left", "orders", "payments", with(join.Left, 5, 10, 3))
	b.JoinStreams("outer", "orders", "payments", with(join.Outer, 8, 8, 0))
	b.JoinStreams("self", "orders", "orders", with(join.Inner, 4, 4, 4))
	b.KeyBy("moved", "outer", topology.KeyByOptions{Partitions: 3, Key: sameKey})
	b.KeyBy("moved-too", "inner", topology.KeyByOptions{Partitions: 3, Key: sameKey})
	b.JoinStreams("again", "moved", "moved-too", with(join.Outer, 2, 2, 2))
	for _, from := range []string{"inner", "left", "outer", "self", "again"} {
		b.Sink("out-"+from, from, "out", topology.SinkOptions{})
	}
	return b
}

// keyed makes a record of a topic of n partitions.
func keyed(topic string, n int32, key, value string, ts int64) fed {
	return fed{topic, record.PartitionForKey([]byte(key), n),
		record.Record{Key: []byte(key), Value: []byte(value), Timestamp: max(0, ts)}}
}

// paid are orders and payments, some much too late, some without a key.
func paid(n int) (list []fed) {
	rnd := rand.New(rand.NewPCG(11, 1))
	for i := range n {
		topic, disorder := "orders", 20
		if rnd.IntN(2) == 0 {
			topic, disorder = "payments", 9
		}
		f := keyed(topic, 2, fmt.Sprint("c", rnd.IntN(6)), fmt.Sprint(topic[:1], i),
			int64(2*i-rnd.IntN(disorder)))
		switch rnd.IntN(25) {
		case 0:
			f.record.Timestamp = max(0, f.record.Timestamp-100)
		case 1:
			f.record.Key = nil
		}
		list = append(list, f)
	}
	return list
}

// sessionsAndGates has sessions on close and on update, sliding and count windows, what is emitted
// every so often, dedupe, throttle and punctuations.
func sessionsAndGates() *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "sg", CloseAtEnd: true,
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("clicks", "clicks", topology.SourceOptions{Disorder: millis(9)})
	b.Dedupe("once", "clicks", gate.DedupeOptions{Within: millis(30), Key: byValue})
	b.Throttle("few", "once", gate.ThrottleOptions{Count: 3, Per: millis(20), Key: gate.ByKey,
		Fail: true})
	b.KeyBy("moved", "few", topology.KeyByOptions{Partitions: 2,
		Key: func(r *operator.Record) ([]byte, error) { return r.Value[:1], nil }})
	b.Process("tick", []string{"moved"}, topology.ProcessOptions{New: operator.Punctuate(millis(25),
		func(_ *operator.Context, at int64, emit func(operator.Record)) error {
			emit(operator.Record{Key: []byte("tick"), Timestamp: at,
				Value: fmt.Append(nil, "tick ", at)})
			return nil
		})})
	count := []aggregate.Field{{Name: "n"}}
	for i, o := range []aggregate.Options{
		{Windows: window.Sessions(millis(6)), Grace: millis(4), Emit: aggregate.OnClose},
		{Windows: window.Sessions(millis(9)), Lateness: millis(12)},
		{Windows: window.SlidingBy(millis(8)), Grace: millis(5)},
		{Windows: window.Counted(4), Forget: millis(60)},
		{Windows: window.Hopping(millis(30), millis(10)), Emit: aggregate.Every, Every: millis(7)},
	} {
		o.Fields, o.Late = count, lateAside
		for _, from := range []string{"once", "tick"} {
			id := fmt.Sprint(from, "-", o.Windows.Kind, "-", i)
			b.Aggregate(id, from, o)
			b.Sink("out-"+id, id, "out", topology.SinkOptions{})
		}
	}
	return b
}

func clicks(n int) (list []fed) {
	rnd := rand.New(rand.NewPCG(12, 1))
	at := int64(0)
	for range n {
		if at += rnd.Int64N(4); rnd.IntN(20) == 0 {
			at += 15 // sessions end
		}
		ts := at - rnd.Int64N(12)
		if rnd.IntN(20) == 0 {
			ts -= 60
		}
		list = append(list, keyed("clicks", 3, fmt.Sprint("u", rnd.IntN(5)),
			fmt.Sprintf("%c%d", "xyz"[rnd.IntN(3)], rnd.IntN(60)), ts))
	}
	return list
}

// tableJoins looks orders up among users by event time: the latest row, the row of the time with a
// history, and with a grace for rows that come later.
func tableJoins() *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "st", CloseAtEnd: true})
	b.Source("orders", "orders", topology.SourceOptions{Disorder: millis(6)})
	b.Source("users", "users", topology.SourceOptions{})
	show := func(rec, row *operator.Record) error { return showPair(rec, rec, row) }
	for i, o := range []join.TableOptions{
		{Kind: join.Left},
		{Kind: join.Inner, OutOfOrder: join.Ignore},
		{Kind: join.Left, History: millis(50)},
		{Kind: join.Inner, History: millis(90), Grace: millis(12)},
	} {
		id := []string{"latest", "kept", "as-of", "patient"}[i]
		o.Join, o.Late = show, lateAside
		b.JoinTable(id, "orders", "users", o)
		b.Sink("out-"+id, id, "out", topology.SinkOptions{})
	}
	b.KeyBy("orders-moved", "as-of", topology.KeyByOptions{Partitions: 2, Key: sameKey})
	b.KeyBy("users-moved", "users", topology.KeyByOptions{Partitions: 2, Key: sameKey})
	b.JoinTable("again", "orders-moved", "users-moved", join.TableOptions{Kind: join.Left, Join: show})
	b.Sink("out-again", "again", "out", topology.SinkOptions{})
	return b
}

func withUsers(n int) (list []fed) {
	rnd := rand.New(rand.NewPCG(13, 1))
	for i := range n {
		key := fmt.Sprint("u", rnd.IntN(5))
		ts := int64(2*i - rnd.IntN(10))
		if rnd.IntN(15) == 0 {
			ts -= 70
		}
		if rnd.IntN(3) > 0 {
			list = append(list, keyed("orders", 2, key, fmt.Sprint("o", i), ts))
			continue
		}
		f := keyed("users", 2, key, fmt.Sprint("r", i), ts)
		if rnd.IntN(5) == 0 {
			f.record.Value = nil
		}
		list = append(list, f)
	}
	return list
}

// tablesOfTables joins tables by key and by foreign key, and folds the rows of a table by group.
func tablesOfTables() *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "tt", CloseAtEnd: true})
	for _, topic := range []string{"left", "right", "far"} {
		b.Source(topic, topic, topology.SourceOptions{})
	}
	b.JoinTables("both", "left", "right", join.TablesOptions{Kind: join.Outer, Join: showPair})
	b.JoinTables("strict", "left", "right", join.TablesOptions{Kind: join.Inner, Join: showPair,
		OutOfOrder: join.Ignore})
	first := func(r *operator.Record) ([]byte, error) { return r.Value[:1], nil }
	b.JoinForeign("foreign", "left", "far", join.ForeignOptions{Kind: join.Left, Join: showPair,
		ForeignKey: first})
	b.Changes("rows", "right", join.ChangesOptions{})
	length := func(r *operator.Record) (aggregate.Value, error) {
		return aggregate.IntValue(int64(len(r.Value))), nil
	}
	b.AggregateTable("grouped", "rows", first, aggregate.Options{Fields: []aggregate.Field{
		{Name: "n"}, {Name: "sum", Func: aggregate.Sum, Value: length},
		{Name: "max", Func: aggregate.Max, Value: length}}})
	for _, from := range []string{"both", "strict", "foreign", "grouped"} {
		b.Sink("out-"+from, from, "out", topology.SinkOptions{})
	}
	return b
}

func upserts(n int) (list []fed) {
	rnd := rand.New(rand.NewPCG(14, 1))
	for i := range n {
		f := keyed("left", 2, fmt.Sprint("k", rnd.IntN(6)), "", int64(2*i-rnd.IntN(12)))
		switch rnd.IntN(3) {
		case 0:
			f.topic = "right"
		case 1:
			f = keyed("far", 3, string("abcd"[rnd.IntN(4)]), "", int64(2*i-rnd.IntN(12)))
		}
		if f.record.Value = nil; rnd.IntN(5) > 0 {
			f.record.Value = fmt.Appendf(nil, "%c%d", "abcde"[rnd.IntN(5)], 1<<rnd.IntN(12))
		}
		list = append(list, f)
	}
	return list
}
