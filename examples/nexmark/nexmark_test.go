package nexmark_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/examples/nexmark"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
)

var events = flag.Int64("events", 20_000, "events of each query's run")

const partitions = 2

// generator has one event per ms, so that event times tell bids apart.
var generator = nexmark.Generator{Seed: 7, Rate: 1000}

// world is the events in a log, and as the plain calculation sees them.
type world struct {
	log      *client.Memory
	bids     []*nexmark.Bid
	auctions map[int64]*nexmark.Auction
	persons  map[int64]*nexmark.Person
}

func newWorld(t *testing.T) *world {
	w := &world{log: client.NewMemory(), auctions: map[int64]*nexmark.Auction{},
		persons: map[int64]*nexmark.Person{}}
	var specs []client.TopicSpec
	for _, topic := range []string{"bids", "auctions", "persons", "side"} {
		specs = append(specs, client.TopicSpec{Name: topic, Partitions: partitions})
	}
	require.NoError(t, w.log.Admin().CreateTopics(t.Context(), specs...))
	put := func(topic string, partition int32, r record.Record) {
		tp := client.TopicPartition{Topic: topic, Partition: partition}
		require.NoError(t, w.log.Append(tp, r))
	}
	for n := range *events {
		topic, key, value := generator.Record(n)
		partition := int32(n % partitions)
		if key != nil {
			partition = record.PartitionForKey(key, partitions)
		}
		put(topic, partition, record.Record{Key: key, Value: value, Timestamp: generator.Time(n)})
		switch e := generator.Event(n).(type) {
		case *nexmark.Bid:
			w.bids = append(w.bids, e)
		case *nexmark.Auction:
			w.auctions[e.ID] = e
		case *nexmark.Person:
			w.persons[e.ID] = e
		}
	}
	for i := range 100 {
		key := fmt.Append(nil, i)
		put("side", record.PartitionForKey(key, partitions), record.Record{Key: key,
			Value: fmt.Appendf(nil, `{"key":%d,"value":"v%d"}`, i, i)})
	}
	return w
}

// updates are the queries whose results are changes of a table: the last row of a key counts.
var updates = map[string]bool{"q4": true}

// run runs a query over all events and returns its rows, sorted, and the CPU time it took.
func (w *world) run(t *testing.T, name string) (rows []string, cpu time.Duration) {
	text, err := os.ReadFile(name + ".yaml")
	require.NoError(t, err)
	spans := map[string]map[int32]deploy.Span{}
	for _, topic := range []string{"bids", "auctions", "persons"} {
		spans[topic] = map[int32]deploy.Span{}
		for p := range int32(partitions) {
			tp := client.TopicPartition{Topic: topic, Partition: p}
			ranges, err := w.log.Admin().Ranges(t.Context(), tp)
			require.NoError(t, err)
			spans[topic][p] = deploy.Span{To: ranges[tp].End}
		}
	}
	dir, err := filepath.Abs(".")
	require.NoError(t, err)
	r := runner.New(runner.Options{StateDir: t.TempDir(),
		Cluster: func() (client.Cluster, error) { return w.log, nil }})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	instance, err := r.Prepare(ctx, deploy.Revision{Name: "run-" + name, Text: string(text),
		File: name + ".yaml", Dir: dir, Number: 1,
		Replay: &deploy.Replay{Of: name, Prefix: "run", Ranges: spans}})
	require.NoError(t, err)
	before := cpuTime()
	require.NoError(t, instance.Run(ctx))
	cpu = cpuTime() - before
	last := map[string]string{}
	topics, err := w.log.Admin().Topics(ctx, "run."+name)
	require.NoError(t, err)
	for p := range topics["run."+name].Partitions {
		out := client.TopicPartition{Topic: "run." + name, Partition: p}
		for _, rec := range w.log.Records(out) {
			if updates[name] {
				last[string(rec.Key)] = canonical(t, rec.Value)
				continue
			}
			rows = append(rows, canonical(t, rec.Value))
		}
	}
	rows = slices.AppendSeq(rows, maps.Values(last))
	slices.Sort(rows)
	return rows, cpu
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// canonical is JSON with its keys in order.
func canonical(t *testing.T, data []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	require.NoError(t, d.Decode(&v), "%s", data)
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

// row is a result of the plain calculation.
type row = map[string]any

func TestNexmark(t *testing.T) {
	w := newWorld(t)
	for _, q := range slices.SortedFunc(slices.Values(names()), func(a, b string) int {
		return cmp.Or(len(a)-len(b), strings.Compare(a, b))
	}) {
		t.Run(q, func(t *testing.T) {
			var want []string
			for _, r := range oracles[q](w) {
				text, err := json.Marshal(r)
				require.NoError(t, err)
				want = append(want, canonical(t, text))
			}
			slices.Sort(want)
			got, cpu := w.run(t, q)
			require.NotEmpty(t, want, "the events must show something")
			require.Equal(t, len(want), len(got))
			for i := range want {
				require.Equal(t, want[i], got[i])
			}
			t.Logf("%d results, %.0f events per CPU second", len(got),
				float64(*events)/cpu.Seconds())
		})
	}
}

func names() (list []string) {
	for name := range oracles {
		list = append(list, name)
	}
	return list
}

func TestEveryQueryHasItsCalculation(t *testing.T) {
	files, err := filepath.Glob("q*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(oracles))
	for _, f := range files {
		require.Contains(t, oracles, strings.TrimSuffix(f, ".yaml"))
	}
}

// TestGeneratorHasTheShapeOfNexmark: shares of the kinds, sizes, and bidders that exist.
func TestGeneratorHasTheShapeOfNexmark(t *testing.T) {
	count, size := map[string]int{}, map[string]int{}
	known, bids := 0, 0
	persons := map[int64]bool{}
	for n := range int64(100_000) {
		topic, _, value := generator.Record(n)
		count[topic]++
		size[topic] += len(value)
		switch e := generator.Event(n).(type) {
		case *nexmark.Person:
			persons[e.ID] = true
		case *nexmark.Bid:
			bids++
			if persons[e.Bidder] {
				known++
			}
		}
	}
	require.Equal(t, map[string]int{"persons": 2000, "auctions": 6000, "bids": 92000}, count)
	require.InDelta(t, 260, size["persons"]/count["persons"], 60)
	require.InDelta(t, 560, size["auctions"]/count["auctions"], 100)
	require.InDelta(t, 230, size["bids"]/count["bids"], 60)
	require.Greater(t, known, bids*9/10, "most bidders are persons")
}

func TestGeneratorGivesTheSameAgain(t *testing.T) {
	_, _, a := generator.Record(12345)
	_, _, b := generator.Record(12345)
	require.Equal(t, a, b)
	_, _, c := nexmark.Generator{Seed: 8, Rate: 1000}.Record(12345)
	require.NotEqual(t, a, c)
}
