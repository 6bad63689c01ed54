package streamstest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/topology"
)

// foreignTopology joins orders with customers whose key is the first letter of the order's value.
func foreignTopology(kind join.Kind) *topology.Builder {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "fk", CloseAtEnd: true})
	b.Source("orders", "orders", topology.SourceOptions{})
	b.Source("customers", "customers", topology.SourceOptions{})
	b.JoinForeign("joined", "orders", "customers", join.ForeignOptions{Kind: kind, Join: showPair,
		ForeignKey: func(rec *operator.Record) ([]byte, error) {
			if rec.Value[0] == '-' {
				return nil, nil
			}
			return rec.Value[:1], nil
		}})
	b.Sink("out", "joined", "out", topology.SinkOptions{})
	return b
}

// change is an upsert of one of the tables; value "" deletes.
type change struct {
	topic, key, value string
	ts                int64
}

func foreignChanges(rnd *rand.Rand) []change {
	var list []change
	for i := range int64(300) {
		c := change{topic: "orders", key: fmt.Sprint("o", rnd.IntN(12)), ts: i/2 - rnd.Int64N(3)}
		c.ts = max(0, c.ts)
		if rnd.IntN(3) == 0 {
			c.topic, c.key = "customers", string(rune('a'+rnd.IntN(4)))
		}
		if rnd.IntN(6) > 0 {
			c.value = fmt.Sprintf("%c%d", "abcde-"[rnd.IntN(6)], rnd.IntN(4))
		}
		list = append(list, c)
	}
	return list
}

func runForeign(t *testing.T, kind join.Kind, list []change,
	o streamstest.Options) *streamstest.Driver {
	o.Partitions = map[string]int32{"orders": 2, "customers": 3, "out": 1}
	d, err := streamstest.New(foreignTopology(kind), o)
	require.NoError(t, err)
	for _, c := range list {
		d.Send(c.topic, c.key, c.value, c.ts)
	}
	d.EndOfInput()
	require.NoError(t, d.Run())
	require.True(t, d.Done())
	return d
}

// TestB18_ForeignKeyAgainstModel compares the table that comes out with the tables that went in,
// for any interleaving of tasks, batches and crashes; and each change of it is a real one.
func TestB18_ForeignKeyAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		kind := []join.Kind{join.Inner, join.Left}[seed%2]
		list := foreignChanges(rand.New(rand.NewPCG(seed, 7)))
		orders, customers := map[string]string{}, map[string]string{}
		for _, c := range list {
			into := orders
			if c.topic == "customers" {
				into = customers
			}
			if into[c.key] = c.value; c.value == "" {
				delete(into, c.key)
			}
		}
		want := map[string]string{}
		for key, o := range orders {
			switch c, ok := customers[o[:1]]; {
			case ok:
				want[key] = fmt.Sprintf("(%s,%s)", o, c)
			case kind == join.Left:
				want[key] = fmt.Sprintf("(%s,null)", o)
			}
		}
		var first map[string][]string
		for run := range uint64(4) {
			o := streamstest.Options{}
			if run > 0 {
				o.Rand, o.Batch = rand.New(rand.NewPCG(seed, run)), 1+int(run)*5
				o.CrashEvery = int(run-1) * 12
			}
			d := runForeign(t, kind, list, o)
			requireForeign(t, want, d)
			got := lanesOf(t, d, map[string]int32{"out": 1})
			if first == nil {
				first = got
			}
			requireSame(t, first, got, fmt.Sprint("seed ", seed, " run ", run))
		}
	}
}

// requireForeign checks the last change of every key, and that no change repeats the one before.
func requireForeign(t *testing.T, want map[string]string, d *streamstest.Driver) {
	last := map[string]string{}
	for _, r := range d.Output("out") {
		key, text := string(r.Key), ""
		if r.Value != nil {
			text = string(r.Value)
			text = text[len(key)+1 : len(text)-len(fmt.Sprintf("@%d", r.Timestamp))]
		}
		require.NotEqual(t, last[key], text, "a change of %s that is none", key)
		if last[key] = text; text == "" {
			delete(last, key)
		}
	}
	require.Equal(t, want, last)
}

// TestB22_RepartitionFollowsTheOtherInputs: the side that is keyed anew gets as many partitions as
// the side that is not, and parts that only read such topics agree among themselves.
func TestB22_RepartitionFollowsTheOtherInputs(t *testing.T) {
	topo, err := foreignTopology(join.Inner).Build(func(topic string) int32 {
		return map[string]int32{"orders": 2, "customers": 3, "out": 1}[topic]
	})
	require.NoError(t, err)
	partitions := map[string]int32{}
	for _, x := range topo.InternalTopics() {
		if x.Kind == "repartition" {
			partitions[x.Name] = x.Partitions
		}
	}
	require.Equal(t, map[string]int32{"fk-joined-subscription-repartition": 3,
		"fk-joined-rows-repartition": 3, "fk-joined-answer-repartition": 3}, partitions)
}
