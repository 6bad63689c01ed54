package task

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// benchRecords is how many records one round of a benchmark reads.
const benchRecords = 200_000

// benchValue is a JSON object of 195 bytes; every second one passes the filter.
func benchValue(i int) []byte {
	return fmt.Appendf(nil, `{"id":%010d,"user":"user-%06d","kind":"%s","price":%8.2f,`+
		`"currency":"EUR","tags":["a","b","c"],"note":"%s"}`, i, i%5000, []string{"bid", "ask"}[i%2],
		float64(i%100000)/7, "lorem ipsum dolor sit amet consectetur adipiscing elit sed do")
}

func filterTopology(b *testing.B, c client.Cluster, app string, keep string) *topology.Topology {
	builder := topology.NewBuilder(topology.Options{App: app})
	builder.Source("in", "bench-in", topology.SourceOptions{})
	want := []byte(keep)
	builder.Filter("bids", "in", func(rec *operator.Record) (bool, error) {
		return bytes.Contains(rec.Value, want), nil
	})
	builder.Sink("out", "bids", "bench-out", topology.SinkOptions{})
	topo, err := builder.Build(func(topic string) int32 {
		infos, err := c.Admin().Topics(b.Context(), topic)
		require.NoError(b, err)
		return infos[topic].Partitions
	})
	require.NoError(b, err)
	return topo
}

// fillBench writes the input of a benchmark.
func fillBench(b *testing.B, c client.Cluster) {
	ctx := context.Background()
	require.NoError(b, c.Admin().CreateTopics(ctx,
		client.TopicSpec{Name: "bench-in", Partitions: 2},
		client.TopicSpec{Name: "bench-out", Partitions: 2}))
	p, err := c.Producer()
	require.NoError(b, err)
	defer p.Close()
	for i := 0; i < benchRecords; i += 1000 {
		batch := make([]record.Record, 1000)
		for j := range batch {
			batch[j] = record.Record{Key: fmt.Appendf(nil, "%d", i+j), Value: benchValue(i + j),
				Timestamp: int64(i + j)}
		}
		tp := client.TopicPartition{Topic: "bench-in", Partition: int32(i / 1000 % 2)}
		_, err := p.Send(ctx, tp, batch)
		require.NoError(b, err)
	}
	require.NoError(b, p.Flush(ctx))
}

// BenchmarkFilter reads a topic, filters and writes a topic, through the twin and through a broker
// in this process; records/s counts what is read.
func BenchmarkFilter(b *testing.B) {
	clusters := map[string]func() client.Cluster{
		"memory": func() client.Cluster {
			m := client.NewMemory()
			m.SetMaxPoll(5000)
			return m
		},
		"broker": func() client.Cluster {
			broker := coretest.Start(b, coretest.Options{})
			k, err := client.NewKafka(client.Options{Seeds: []string{broker.Addr()},
				Dialer: broker.Dialer()})
			require.NoError(b, err)
			b.Cleanup(k.Close)
			return k
		},
		"broker on disk over loopback": func() client.Cluster {
			broker := coretest.Start(b, coretest.Options{OS: true})
			k, err := client.NewKafka(client.Options{Seeds: []string{broker.Addr()}})
			require.NoError(b, err)
			b.Cleanup(k.Close)
			return k
		},
	}
	for _, kind := range []string{"memory", "broker", "broker on disk over loopback"} {
		for _, keep := range []string{`"kind":"bid"`, `"kind":"none"`} {
			b.Run(fmt.Sprintf("%s/keep=%s", kind, keep[8:len(keep)-1]), func(b *testing.B) {
				c := clusters[kind]()
				fillBench(b, c)
				b.ReportAllocs()
				n, round := 0, 0
				for b.Loop() {
					round++
					w, err := NewWorker(Options{Cluster: c, Bounded: true,
						Topology: filterTopology(b, c, fmt.Sprint("bench", round), keep),
						StateDir: b.TempDir()})
					require.NoError(b, err)
					require.NoError(b, w.Run(b.Context()))
					n += int(processed(w))
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
				require.Equal(b, round*benchRecords, n)
				requireWritten(b, c, round, keep)
			})
		}
	}
}

// requireWritten checks that a benchmark measured work: every record that passes is in the output
// once per round, and what is there passes.
func requireWritten(b *testing.B, c client.Cluster, rounds int, keep string) {
	b.Helper()
	want := 0
	for i := range benchRecords {
		if bytes.Contains(benchValue(i), []byte(keep)) {
			want++
		}
	}
	consumer, err := c.Consumer()
	require.NoError(b, err)
	defer consumer.Close()
	have := 0
	for p := range int32(2) {
		tp := client.TopicPartition{Topic: "bench-out", Partition: p}
		ranges, err := c.Admin().Ranges(b.Context(), tp)
		require.NoError(b, err)
		require.NoError(b, client.ReadRange(b.Context(), consumer, tp, 0, ranges[tp].End,
			func(recs []record.Record) error {
				for i := range recs {
					if bytes.Contains(recs[i].Value, []byte(keep)) {
						have++
					}
				}
				return nil
			}))
	}
	require.Equal(b, rounds*want, have)
}

// BenchmarkRestore rebuilds a state of 500k rows from a changelog.
func BenchmarkRestore(b *testing.B) {
	const rows = 500_000
	m := client.NewMemory()
	m.SetMaxPoll(10_000)
	ctx := context.Background()
	require.NoError(b, m.Admin().CreateTopics(ctx,
		client.TopicSpec{Name: "in", Partitions: 1}, client.TopicSpec{Name: "out", Partitions: 1},
		client.TopicSpec{Name: "side", Partitions: 1},
		client.TopicSpec{Name: "app-counts-changelog", Partitions: 1}))
	log := client.TopicPartition{Topic: "app-counts-changelog"}
	value := make([]byte, 64)
	for i := range rows {
		key := fmt.Appendf(nil, "k\x06counts%016x", uint64(i)*0x9E3779B97F4A7C15)
		require.NoError(b, m.Append(log, record.Record{Key: key, Value: value}))
	}
	require.NoError(b, m.Append(log, metaRecord((&commitRecord{Fingerprint: "f"}).encode())))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		o := countOptions(m, 1, b.TempDir())
		began := time.Now()
		w, err := runWorker(ctx, b, o)
		require.NoError(b, err)
		require.Less(b, time.Since(began), time.Minute)
		n += int(w.Status().Tasks[0].Restored) - 1
		b.StopTimer()
		m.Trim(log, 0)
		b.StartTimer()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}
