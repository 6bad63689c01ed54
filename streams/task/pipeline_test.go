package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// The pipeline of these tests: rides are joined to a table of cities, re-keyed by country, and
// summed per country and window of 100 ms; unknown cities are dead letters, late rides go to a
// topic of their own, long rides are branched off.
var rideTopics = map[string]int32{"totals": 2, "dlq": 1, "late": 1, "long": 2}

const (
	rideParts = 3
	rideDay   = 100 // ms
	rideGrace = 20  // ms
)

type ride struct {
	city    string
	at, len int64
}

func rides(n int, seed uint64) []ride {
	rnd := rand.New(rand.NewPCG(seed, 9))
	list := make([]ride, n)
	for i := range list {
		list[i] = ride{fmt.Sprintf("c%02d", rnd.IntN(20)), max(0, int64(i)-rnd.Int64N(60)),
			rnd.Int64N(50)}
		if rnd.IntN(30) == 0 {
			list[i].city = "nowhere"
		}
	}
	return list
}

// partitionOf is where the test puts a ride; country is what the table says of a city.
func partitionOf(r ride) int32 { return int32(len(r.city)+int(r.len)) % rideParts }

func country(city string) string { return "country-" + city[len(city)-1:] }

func ridePipeline(t testing.TB, m client.Cluster) *topology.Topology {
	t.Helper()
	return ridePipelineAs(t, m, "rides")
}

func ridePipelineAs(t testing.TB, m client.Cluster, app string) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder(topology.Options{Sign: true, App: app, CloseAtEnd: true,
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("rides", "rides", topology.SourceOptions{})
	b.Table("cities", "cities", topology.TableOptions{Broadcast: true})
	b.Join("located", "rides", "cities", join.Options{Kind: join.Required,
		Join: func(rec *operator.Record, right any) error {
			country, ok := right.([]byte)
			if !ok {
				return errors.New("row is no bytes")
			}
			rec.SetValue(fmt.Appendf(nil, "%s|%s", country, rec.Value))
			return nil
		}})
	length := func(rec *operator.Record) int64 {
		_, text, _ := strings.Cut(string(rec.Value), "|")
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	b.Filter("is_long", "located", func(rec *operator.Record) (bool, error) {
		return length(rec) > 40, nil
	})
	b.Sink("long", "is_long", "long", topology.SinkOptions{})
	b.KeyBy("by_country", "located", topology.KeyByOptions{Partitions: 2,
		Key: func(rec *operator.Record) ([]byte, error) {
			country, _, _ := strings.Cut(string(rec.Value), "|")
			return []byte(country), nil
		}})
	b.Aggregate("totals", "by_country", aggregate.Options{
		Windows: window.Tumbling(rideDay * time.Millisecond), Grace: rideGrace * time.Millisecond,
		Emit: aggregate.OnClose, Late: operator.LatePolicy{Action: operator.LateSide, Topic: "late"},
		Fields: []aggregate.Field{{Name: "n"}, {Name: "sum", Func: aggregate.Sum,
			Value: func(rec *operator.Record) (aggregate.Value, error) {
				return aggregate.IntValue(length(rec)), nil
			}}}})
	b.Sink("out", "totals", "totals", topology.SinkOptions{})
	topo, err := b.Build(func(topic string) int32 {
		infos, err := m.Admin().Topics(t.Context(), topic)
		require.NoError(t, err)
		return infos[topic].Partitions
	})
	require.NoError(t, err)
	return topo
}

// rideLog is a log with the inputs of the pipeline.
func rideLog(t testing.TB, list []ride) *client.Memory {
	t.Helper()
	m := client.NewMemory()
	specs := []client.TopicSpec{
		{Name: "rides", Partitions: rideParts}, {Name: "cities", Partitions: 2},
	}
	for topic, n := range rideTopics {
		specs = append(specs, client.TopicSpec{Name: topic, Partitions: n})
	}
	require.NoError(t, m.Admin().CreateTopics(t.Context(), specs...))
	for i := range 20 {
		city := fmt.Sprintf("c%02d", i)
		require.NoError(t, m.Append(client.TopicPartition{Topic: "cities", Partition: int32(i) % 2},
			record.Record{Key: []byte(city), Value: []byte(country(city))}))
	}
	for _, r := range list {
		require.NoError(t, m.Append(client.TopicPartition{Topic: "rides", Partition: partitionOf(r)},
			record.Record{Key: []byte(r.city), Value: []byte(strconv.FormatInt(r.len, 10)),
				Timestamp: r.at}))
	}
	return m
}

func rideOptions(t testing.TB, m client.Cluster, dir string) Options {
	return Options{
		Topology: ridePipeline(t, m), Cluster: m, StateDir: dir, Bounded: true,
		CommitInterval: time.Millisecond, killOnError: true, batch: 32,
	}
}

// rideTotals sums all results by country, as "n sum".
func rideTotals(t testing.TB, m *client.Memory) map[string][2]int64 {
	t.Helper()
	totals := map[string][2]int64{}
	for p := range rideTopics["totals"] {
		for _, r := range m.Records(client.TopicPartition{Topic: "totals", Partition: p}) {
			var start, end, n, sum int64
			_, err := fmt.Sscanf(strings.NewReplacer(`"`, "", ":", " ", ",", " ", "{", "", "}", "").
				Replace(string(r.Value)), "window_start %d window_end %d n %d sum %d",
				&start, &end, &n, &sum)
			require.NoError(t, err, "%s", r.Value)
			c := totals[string(r.Key)]
			totals[string(r.Key)] = [2]int64{c[0] + n, c[1] + sum}
		}
	}
	return totals
}

// TestPipelineAddsUp checks a run of the real core against sums over the input: every ride is in
// one window, or late, or a dead letter.
func TestPipelineAddsUp(t *testing.T) {
	list := rides(3000, 1)
	m := rideLog(t, list)
	_, err := runWorker(t.Context(), t, rideOptions(t, m, t.TempDir()))
	require.NoError(t, err)
	want := map[string][2]int64{}
	long, unknown := 0, 0
	for _, r := range list {
		if r.city == "nowhere" {
			unknown++
			continue
		}
		if r.len > 40 {
			long++
		}
		c := want[country(r.city)]
		want[country(r.city)] = [2]int64{c[0] + 1, c[1] + r.len}
	}
	late := m.Records(client.TopicPartition{Topic: "late"})
	require.NotEmpty(t, late)
	for _, r := range late { // as the ride was read
		c := want[country(string(r.Key))]
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		require.NoError(t, err)
		want[country(string(r.Key))] = [2]int64{c[0] - 1, c[1] - n}
	}
	require.Equal(t, want, rideTotals(t, m))
	require.Len(t, m.Records(client.TopicPartition{Topic: "dlq"}), unknown)
	require.Len(t, append(m.Records(client.TopicPartition{Topic: "long"}),
		m.Records(client.TopicPartition{Topic: "long", Partition: 1})...), long)
}

// TestPipelineCrashes crashes the whole pipeline again and again and compares every lane of every
// output with a run without crashes: values, order, sequence numbers.
func TestPipelineCrashes(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			list := rides(800, seed)
			m := rideLog(t, list)
			_, err := runWorker(t.Context(), t, rideOptions(t, m, ""))
			require.NoError(t, err)
			want := lanesOf(t, m, rideTopics)

			rnd := rand.New(rand.NewPCG(seed, 3))
			m = rideLog(t, list)
			dir, crashes := t.TempDir(), 0
			for try := 0; ; try++ {
				require.Less(t, try, 300)
				m.SetMaxPoll(1 + rnd.IntN(100))
				o := rideOptions(t, m, dir)
				o.batch = 1 + rnd.IntN(100)
				o.CommitInterval = time.Duration(1+rnd.IntN(5)) * time.Millisecond
				c := crashAt(m, 1+rnd.Int64N(int64(100+try*50)), rnd.IntN(2) == 0, nil)
				_, err := runWorker(t.Context(), t, o)
				m.SetFaults(nil, nil)
				if err == nil && !c.dead.Load() {
					break
				}
				crashes++
				if rnd.IntN(3) == 0 {
					dir = t.TempDir()
				}
			}
			require.Positive(t, crashes)
			requireLanes(t, want, lanesOf(t, m, rideTopics))
		})
	}
}
