package task

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// counted counts the records of a topic of two partitions per window of 10 ms, behind a repartition
// topic.
func counted(t *testing.T, app, out string, idle time.Duration) *topology.Topology {
	b := topology.NewBuilder(topology.Options{App: app})
	b.Source("in", "in", topology.SourceOptions{IdleAfter: idle})
	b.KeyBy("by", "in", topology.KeyByOptions{Partitions: 1,
		Key: func(r *operator.Record) ([]byte, error) { return r.Value, nil }})
	b.Aggregate("n", "by", aggregate.Options{Windows: window.Tumbling(10 * time.Millisecond),
		Emit: aggregate.OnClose, Fields: []aggregate.Field{{Name: "n"}}})
	b.Sink("out", "n", out, topology.SinkOptions{})
	topo, err := b.Build(func(topic string) int32 {
		return map[string]int32{"in": 2, out: 1}[topic]
	})
	require.NoError(t, err)
	return topo
}

// results are key, start of the window and count of each result.
func results(t *testing.T, m *client.Memory, topic string) (list []string) {
	for _, r := range m.Records(client.TopicPartition{Topic: topic}) {
		var row struct {
			Start int64 `json:"window_start"`
			N     int64 `json:"n"`
		}
		require.NoError(t, json.Unmarshal(r.Value, &row))
		list = append(list, fmt.Sprintf("%s %d %d @%d", r.Key, row.Start, row.N, r.Timestamp))
	}
	return list
}

// TestRuleB27_AnIdlePartitionHoldsUpNoWindowAndAReplayRepeatsThat: one partition falls silent, the
// windows of the other close after a while also behind a repartition topic; a record that then
// comes back is late. A replay that has all records at once gives the same.
func TestRuleB27_AnIdlePartitionHoldsUpNoWindowAndAReplayRepeatsThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := client.NewMemory()
		require.NoError(t, m.Admin().CreateTopics(t.Context(),
			client.TopicSpec{Name: "in", Partitions: 2}, client.TopicSpec{Name: "live", Partitions: 1},
			client.TopicSpec{Name: "again", Partitions: 1}))
		put := func(partition int32, ts int64, value string) {
			require.NoError(t, m.Append(client.TopicPartition{Topic: "in", Partition: partition},
				record.Record{Timestamp: ts, Value: []byte(value)}))
		}
		run := func(o Options) (stop func() error) {
			o.Cluster, o.CommitInterval = m, 200*time.Millisecond
			w, err := NewWorker(o)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			return func() error { cancel(); return <-ended }
		}
		stop := run(Options{Topology: counted(t, "app", "live", 5*time.Second)})
		put(0, 1, "a")
		put(1, 2, "b")
		put(0, 15, "a")
		put(0, 38, "a")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Empty(t, results(t, m, "live"), "partition 1 may still have something for [0, 10)")
		put(0, 39, "a") // partition 0 is not idle
		time.Sleep(3 * time.Second)
		synctest.Wait()
		want := []string{"a 0 1 @1", "b 0 1 @2", "a 10 1 @15"}
		require.Equal(t, want, results(t, m, "live"))
		put(1, 12, "b") // late: [10, 20) is closed
		put(1, 45, "b")
		time.Sleep(time.Second) // else partition 0 may come to 60 before this one is there again
		put(0, 60, "a")
		time.Sleep(time.Second)
		synctest.Wait()
		want = append(want, "a 30 2 @39")
		require.Equal(t, want, results(t, m, "live"))
		require.NoError(t, stop())

		decisions, err := ReadDecisions(t.Context(), m, "app")
		require.NoError(t, err)
		require.NotEmpty(t, decisions)
		stop = run(Options{Topology: counted(t, "second", "again", 0), Bounded: true,
			Decisions: decisions})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, stop())
		// Here partition 1 ends, so that the last record of the other one closes its window.
		require.Equal(t, append(want, "b 40 1 @45"), results(t, m, "again"))

		none, err := ReadDecisions(t.Context(), m, "second")
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

// TestMaxSkewKeepsTheTasksOfASourceTogether: one partition covers a second per record, the other a
// millisecond. The fast one waits for the slow one, and goes on when that is read to its end.
func TestMaxSkewKeepsTheTasksOfASourceTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := client.NewMemory()
		m.SetMaxPoll(10)
		require.NoError(t, m.Admin().CreateTopics(t.Context(),
			client.TopicSpec{Name: "in", Partitions: 2}, client.TopicSpec{Name: "out", Partitions: 2}))
		const records = 500
		for i := range int64(records) {
			for p, step := range []int64{1000, 1} {
				require.NoError(t, m.Append(client.TopicPartition{Topic: "in", Partition: int32(p)},
					record.Record{Timestamp: i * step}))
			}
		}
		var at [2]atomic.Int64 // records seen of each partition
		b := topology.NewBuilder(topology.Options{App: "app"})
		b.Source("in", "in", topology.SourceOptions{MaxSkew: 20 * time.Second})
		b.Map("seen", "in", func(r *operator.Record) error {
			at[r.Partition()].Add(1)
			fast, slow := at[0].Load(), at[1].Load()
			if slow < records && fast*1000 > slow+20_000+4*1000 { // a batch of 4 may begin in bounds
				return fmt.Errorf("%d s against %d ms", fast, slow)
			}
			return nil
		})
		b.Sink("out", "seen", "out", topology.SinkOptions{})
		topo, err := b.Build(func(string) int32 { return 2 })
		require.NoError(t, err)
		w, err := NewWorker(Options{Topology: topo, Cluster: m, Bounded: true, batch: 4})
		require.NoError(t, err)
		require.NoError(t, w.Run(t.Context()))
		require.EqualValues(t, records, at[0].Load())
		require.EqualValues(t, records, at[1].Load())
	})
}

func TestMaxSkewPausesTheFastInputOfATask(t *testing.T) {
	b := topology.NewBuilder(topology.Options{App: "app"})
	b.Source("a", "a", topology.SourceOptions{MaxSkew: 10 * time.Millisecond})
	b.Source("b", "b", topology.SourceOptions{})
	b.Merge("both", "a", "b")
	b.Sink("out", "both", "out", topology.SinkOptions{})
	c := newCoreTest(t, b, 0)
	c.add("a", "k", "a5", 5)
	c.add("b", "k", "b5", 5)
	c.run()
	c.add("a", "k", "a15", 15)
	require.Empty(t, c.Paused(nil), "10 ms ahead")
	c.run()
	c.add("b", "k", "b6", 6)
	c.run()
	c.add("a", "k", "a17", 17)
	require.Empty(t, c.Paused(nil), "its next is a15")
	c.add("b", "k", "b16", 16)
	c.run()
	c.add("a", "k", "a40", 40)
	c.add("b", "k", "b20", 20)
	c.run()
	require.Equal(t, []Input{{Topic: "a"}}, c.Paused(nil))
	c.add("b", "k", "b30", 30)
	c.run()
	require.Empty(t, c.Paused(nil))
}
