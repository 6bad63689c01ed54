package streamstest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// endings are transactions of which an input consists; the last one ends the log with its marker.
var endings = map[string][]ending{
	"committed":    {{"a", 3, true}, {"b", 14, true}},
	"aborted":      {{"a", 3, true}, {"b", 14, true}, {"lost", 90, false}},
	"aborted only": {{"lost", 3, false}},
	"aborted first": {{"lost", 90, false}, {"a", 3, true}, {"b", 14, true},
		{"lost", 91, false}},
}

type ending struct {
	key    string
	at     int64
	commit bool
}

// TestG65_EndOffsetIsAMarker: the last offset below the end of a bounded input belongs to the
// marker of a transaction, or to records of an aborted one, and no record ever comes there. The run
// ends all the same, what was aborted moves no time, and windows stay open.
func TestG65_EndOffsetIsAMarker(t *testing.T) {
	logs := map[string]func(t *testing.T) client.Cluster{
		"memory": func(*testing.T) client.Cluster { return client.NewMemory() },
		"broker": func(t *testing.T) client.Cluster {
			broker := coretest.Start(t, coretest.Options{})
			k, err := client.NewKafka(client.Options{Seeds: []string{broker.Addr()},
				Dialer: broker.Dialer(), FetchWait: 20 * time.Millisecond})
			require.NoError(t, err)
			t.Cleanup(k.Close)
			return k
		},
	}
	for kind, newLog := range logs {
		for name, transactions := range endings {
			t.Run(kind+"/"+name, func(t *testing.T) {
				log := newLog(t)
				in, out := client.TopicPartition{Topic: "in"}, client.TopicPartition{Topic: "out"}
				require.NoError(t, log.Admin().CreateTopics(t.Context(),
					client.TopicSpec{Name: "in", Partitions: 1},
					client.TopicSpec{Name: "out", Partitions: 1}))
				visible := 0
				for _, x := range transactions {
					txn, err := log.Transactor(t.Context(), "outside")
					require.NoError(t, err)
					_, err = txn.Send(t.Context(), in,
						[]record.Record{{Key: []byte(x.key), Value: []byte("v"), Timestamp: x.at}})
					require.NoError(t, err)
					require.NoError(t, txn.Flush(t.Context()))
					if x.commit {
						visible++
						require.NoError(t, txn.Commit(t.Context(), "outside", nil))
					} else {
						txn.Abort(t.Context())
					}
					txn.Close()
				}
				end := int64(2 * len(transactions)) // each with its marker, which may come later
				require.Eventually(t, func() bool {
					ranges, err := log.Admin().Ranges(t.Context(), in)
					return err == nil && ranges[in].End == end
				}, time.Minute, time.Millisecond)
				w, err := task.NewWorker(task.Options{Topology: windowsOfTen(t), Cluster: log,
					Bounded: true})
				require.NoError(t, err)
				require.NoError(t, w.Run(t.Context()))
				offsets, err := log.Admin().CommittedOffsets(t.Context(), "g65")
				require.NoError(t, err)
				require.Equal(t, map[client.TopicPartition]int64{in: end}, offsets)
				require.Equal(t, visible/2, countRecords(t, log, out),
					"14 closes the window of 3, and nothing closes its own")
			})
		}
	}
}

// windowsOfTen counts in tumbling windows of 10 ms, on close.
func windowsOfTen(t *testing.T) *topology.Topology {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "g65",
		OnError: operator.ErrorPolicy{DeadLetterTopic: "out"}})
	b.Source("in", "in", topology.SourceOptions{})
	b.Aggregate("n", "in", aggregate.Options{Windows: window.Tumbling(10 * time.Millisecond),
		Emit: aggregate.OnClose, Fields: []aggregate.Field{{Name: "n"}}})
	b.Sink("out", "n", "out", topology.SinkOptions{})
	topo, err := b.Build(func(string) int32 { return 1 })
	require.NoError(t, err)
	return topo
}

// countRecords counts the committed records of a partition.
func countRecords(t *testing.T, log client.Cluster, tp client.TopicPartition) (n int) {
	ranges, err := log.Admin().Ranges(t.Context(), tp)
	require.NoError(t, err)
	c, err := log.Consumer()
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, client.ReadRange(t.Context(), c, tp, 0, ranges[tp].End,
		func(recs []record.Record) error {
			n += len(recs)
			return nil
		}))
	return n
}

// TestG66_RescaleAtACheckpoint: the same input by two workers, from a commit on by three, and by
// one at last: every lane of every output is that of a single pass.
func TestG66_RescaleAtACheckpoint(t *testing.T) {
	all := deterministics()
	for i := range all {
		p := &all[i]
		want := p.singlePass(t)
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws, err := streamstest.NewLog(p.build(), t.TempDir(),
					streamstest.Options{Partitions: p.partitions})
				require.NoError(t, err)
				feed := func(list []fed) {
					for _, f := range list {
						require.NoError(t, ws.Feed(f.topic, f.partition, f.record))
					}
					require.NoError(t, ws.Run()) // to a commit
				}
				third := len(p.input) / 3
				for _, name := range []string{"a", "b"} {
					require.NoError(t, ws.Join(name, task.Share{}))
				}
				feed(append(p.tables[:len(p.tables):len(p.tables)], p.input[:third]...))
				require.NoError(t, ws.Join("c", task.Share{}))
				feed(p.input[third : 2*third])
				require.NoError(t, ws.Stop(false, "a", "b"))
				feed(p.input[2*third:])
				require.NoError(t, ws.EndOfInput())
				for range 120 {
					if ws.Done() {
						break
					}
					time.Sleep(time.Second)
				}
				require.True(t, ws.Done(), phases(ws))
				require.NoError(t, ws.Stop(false))
				requireSame(t, want, lanesIn(t, ws.Partition, p.outputs), "two, three and one worker")
			})
		})
	}
}
