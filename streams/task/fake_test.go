package task

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/topology"
)

// counter is a small deterministic machine in the place of Core: it counts records per key in a
// store and writes every count, and every third record to a second topic. Its outputs are a
// function of its one input partition.
type counter struct {
	opts    CoreOptions
	pending []record.Record
	next    int64 // after the records in pending
	at      int64 // first offset not processed
	event   int64
	out     []Output
	ended   bool
}

func newCounter(o CoreOptions) (processor, error) {
	c := &counter{opts: o}
	if len(o.Snapshot) > 0 {
		c.at = int64(binary.BigEndian.Uint64(o.Snapshot))
		c.event = int64(binary.BigEndian.Uint64(o.Snapshot[8:]))
	}
	c.next = c.at
	return c, nil
}

func (c *counter) Writer() string {
	return fmt.Sprintf("%s.%s.%d", c.opts.Topology.App, c.opts.Sub.Name, c.opts.Partition)
}

func (c *counter) Inputs() []Input {
	return []Input{{Topic: "in", Partition: c.opts.Partition, Offset: c.at}}
}

func (c *counter) Add(_ string, _ int32, recs []record.Record, next int64) error {
	c.pending = append(c.pending, recs...)
	c.next = next
	return nil
}

func (c *counter) TableReady(string, int32)   {}
func (c *counter) EndOfInput(string, int32)   { c.ended = true }
func (c *counter) Watermarks()                {}
func (c *counter) Paused(dst []Input) []Input { return dst }
func (c *counter) Buffered() (int, int64)     { return len(c.pending), 0 }
func (c *counter) StreamTime() int64          { return c.event }
func (c *counter) Done() bool                 { return c.ended && len(c.pending) == 0 }
func (c *counter) Stats() []StepStats         { return nil }
func (c *counter) TakeOutputs(d []Output) []Output {
	d = append(d, c.out...)
	c.out = nil
	return d
}

func (c *counter) Snapshot() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(c.at))
	return binary.BigEndian.AppendUint64(b, uint64(c.event))
}

func (c *counter) Run(limit int) (int, error) {
	n := min(limit, len(c.pending))
	store := c.opts.Stores.Store("counts")
	for i := range n {
		r := &c.pending[i]
		v, _, err := store.Get(r.Key)
		if err != nil {
			return i, err
		}
		count := uint64(1)
		if len(v) == 8 {
			count += binary.BigEndian.Uint64(v)
		}
		if err := store.Put(r.Key, binary.BigEndian.AppendUint64(nil, count)); err != nil {
			return i, err
		}
		if string(r.Value) == "poison" {
			return i, errors.New("poison record")
		}
		c.emit("out", 0, r.Key, fmt.Sprintf("%s=%d", r.Key, count))
		if c.event%3 == 0 {
			c.emit("side", 1, r.Key, fmt.Sprintf("third %d", c.event))
		}
		c.event++
		c.at = r.Offset + 1
	}
	c.pending = c.pending[n:]
	if len(c.pending) == 0 {
		c.at = c.next
	}
	return n, nil
}

func (c *counter) emit(topic string, sub int64, key []byte, value string) {
	seq := c.event<<16 + 1 + sub
	partition := int32(0)
	if topic == "out" {
		partition = record.PartitionForKey(key, c.opts.Partitions(topic))
	}
	c.out = append(c.out, Output{Topic: topic, Partition: partition, Seq: seq,
		Record: record.Record{Key: key, Value: []byte(value), Timestamp: c.event,
			Headers: []record.Header{{Key: LaneHeader, Value: AppendLane(nil,
				Lane{Writer: c.Writer(), Seq: seq})}}}})
}

// countTopology is what the worker needs to know of the machine.
func countTopology(partitions int32) *topology.Topology {
	sub := &topology.Sub{
		Name: "counts", Partitions: partitions, Fingerprint: "f",
		Sources: []topology.Source{{ID: "counts", Topic: "in", Partitions: partitions}},
		Nodes: []topology.Node{
			{ID: "out", Sink: &topology.Sink{Topic: "out"}},
			{ID: "side", Sink: &topology.Sink{Topic: "side"}},
		},
	}
	return &topology.Topology{App: "app", Subs: []*topology.Sub{sub}}
}

// bench is a log with a filled input.
func filled(t testing.TB, partitions int32, records int) *client.Memory {
	t.Helper()
	m := client.NewMemory()
	require.NoError(t, m.Admin().CreateTopics(context.Background(),
		client.TopicSpec{Name: "in", Partitions: partitions},
		client.TopicSpec{Name: "out", Partitions: 3},
		client.TopicSpec{Name: "side", Partitions: 1}))
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range records {
		key := fmt.Sprintf("key-%d", rnd.IntN(7))
		require.NoError(t, m.Append(client.TopicPartition{Topic: "in", Partition: int32(i) % partitions},
			record.Record{Key: []byte(key), Value: []byte(fmt.Sprint(i)), Timestamp: int64(i)}))
	}
	return m
}

// lanesOf returns what each writer wrote to each partition of the topics, in order, without
// offsets: what must be equal between a run with crashes and one without.
func lanesOf(t testing.TB, m *client.Memory, partitions map[string]int32) map[string][]string {
	t.Helper()
	lanes := map[string][]string{}
	for topic, n := range partitions {
		for p := range n {
			tp := client.TopicPartition{Topic: topic, Partition: p}
			for _, r := range m.Records(tp) {
				b, ok := r.Header(LaneHeader)
				require.True(t, ok)
				lane, err := ParseLane(b)
				require.NoError(t, err)
				if lane.Control {
					continue
				}
				id := tp.String() + " by " + lane.Writer
				lanes[id] = append(lanes[id],
					fmt.Sprintf("%d %s %s @%d", lane.Seq, r.Key, r.Value, r.Timestamp))
			}
		}
	}
	return lanes
}

var outTopics = map[string]int32{"out": 3, "side": 1}

func countOptions(m client.Cluster, partitions int32, dir string) Options {
	return Options{
		Topology: countTopology(partitions), Cluster: m, StateDir: dir, Bounded: true,
		CommitInterval: time.Millisecond, newCore: newCounter, killOnError: true, batch: 16,
	}
}

// runWorker runs to the end and returns the error.
func runWorker(ctx context.Context, t testing.TB, o Options) (*Worker, error) {
	t.Helper()
	w, err := NewWorker(o)
	require.NoError(t, err)
	return w, w.Run(ctx)
}

// requireLanes compares outputs and shows the first difference only.
func requireLanes(t testing.TB, want, have map[string][]string) {
	t.Helper()
	for lane, records := range want {
		for i, r := range records {
			if i >= len(have[lane]) || have[lane][i] != r {
				t.Fatalf("%s has %d records of %d; record %d:\nwant %q\nhave %q", lane,
					len(have[lane]), len(records), i, r, have[lane][i:min(i+2, len(have[lane]))])
			}
		}
		require.Len(t, have[lane], len(records), lane)
	}
	require.Len(t, have, len(want))
}
