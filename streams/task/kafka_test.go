package task

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

// kafkaRides is a broker with the inputs of the ride pipeline, and an adapter to it.
func kafkaRides(t testing.TB, list []ride) (*client.Kafka, *coretest.Cluster, *cable) {
	t.Helper()
	broker := coretest.Start(t, coretest.Options{})
	net := &cable{dial: broker.Dialer()}
	k := kafkaClient(t, net.Dial, broker.Addr())
	specs := []client.TopicSpec{
		{Name: "rides", Partitions: rideParts}, {Name: "cities", Partitions: 2},
	}
	for topic, n := range rideTopics {
		specs = append(specs, client.TopicSpec{Name: topic, Partitions: n})
	}
	require.NoError(t, k.Admin().CreateTopics(t.Context(), specs...))
	p, err := k.Producer()
	require.NoError(t, err)
	defer p.Close()
	put := func(topic string, partition int32, r record.Record) {
		tp := client.TopicPartition{Topic: topic, Partition: partition}
		_, err := p.Send(t.Context(), tp, []record.Record{r})
		require.NoError(t, err)
	}
	for i := range 20 {
		city := fmt.Sprintf("c%02d", i)
		put("cities", int32(i)%2, record.Record{Key: []byte(city), Value: []byte(country(city))})
	}
	for _, r := range list {
		put("rides", partitionOf(r), record.Record{Key: []byte(r.city),
			Value: fmt.Append(nil, r.len), Timestamp: r.at})
	}
	require.NoError(t, p.Flush(t.Context()))
	return k, broker, net
}

// cable is the network between the client and the broker; it can be cut.
type cable struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	mu   struct {
		sync.Mutex
		cut   bool
		conns []net.Conn
	}
}

// Dial connects unless the cable is cut.
func (c *cable) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.cut {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	c.mu.conns = append(c.mu.conns, conn)
	return conn, nil
}

// during runs fn while nothing gets through: a broker that loses its power must not acknowledge
// anything after the moment whose disk it comes back with.
func (c *cable) during(fn func()) {
	c.mu.Lock()
	c.mu.cut = true
	conns := c.mu.conns
	c.mu.conns = nil
	c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	fn()
	c.mu.Lock()
	c.mu.cut = false
	c.mu.Unlock()
}

func kafkaClient(t testing.TB, dial func(context.Context, string, string) (net.Conn, error),
	addr string,
) *client.Kafka {
	t.Helper()
	k, err := client.NewKafka(client.Options{
		Seeds: []string{addr}, Dialer: dial, FetchWait: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(k.Close)
	return k
}

// copyOut reads topics into a Memory, to be looked at like one.
func copyOut(t testing.TB, k *client.Kafka, topics map[string]int32) *client.Memory {
	t.Helper()
	m := client.NewMemory()
	c, err := k.Consumer()
	require.NoError(t, err)
	defer c.Close()
	for topic, n := range topics {
		require.NoError(t, m.Admin().CreateTopics(t.Context(),
			client.TopicSpec{Name: topic, Partitions: n}))
		for p := range n {
			tp := client.TopicPartition{Topic: topic, Partition: p}
			ranges, err := k.Admin().Ranges(t.Context(), tp)
			require.NoError(t, err)
			require.NoError(t, client.ReadRange(t.Context(), c, tp, 0, ranges[tp].End,
				func(recs []record.Record) error { return m.Append(tp, recs...) }))
		}
	}
	return m
}

// TestPipelineOnBroker runs over the Kafka protocol and gives what the twin gives.
func TestPipelineOnBroker(t *testing.T) {
	list := rides(2000, 5)
	m := rideLog(t, list)
	_, err := runWorker(t.Context(), t, rideOptions(t, m, ""))
	require.NoError(t, err)
	k, _, _ := kafkaRides(t, list)
	_, err = runWorker(t.Context(), t, rideOptions(t, k, t.TempDir()))
	require.NoError(t, err)
	requireLanes(t, lanesOf(t, m, rideTopics), lanesOf(t, copyOut(t, k, rideTopics), rideTopics))
	offsets, err := k.Admin().CommittedOffsets(t.Context(), "rides")
	require.NoError(t, err)
	read := int64(0)
	for p := range int32(rideParts) {
		read += offsets[client.TopicPartition{Topic: "rides", Partition: p}]
	}
	require.EqualValues(t, len(list), read)
}

// TestBrokerRestarts closes and cuts off the broker while the pipeline runs; between runs the
// worker is stopped at random moments. Outputs are those of an undisturbed run.
func TestBrokerRestarts(t *testing.T) {
	list := rides(3000, 6)
	m := rideLog(t, list)
	_, err := runWorker(t.Context(), t, rideOptions(t, m, ""))
	require.NoError(t, err)

	k, broker, net := kafkaRides(t, list)
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(6, 6))
	for try := range 4 {
		ctx, stop := context.WithCancel(t.Context())
		o := rideOptions(t, k, dir)
		o.batch = 8
		w, err := NewWorker(o)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		target := int64(rnd.IntN(300) * (try + 1))
		require.Eventually(t, func() bool { return processed(w) >= target || len(ended) > 0 },
			waitFor, time.Millisecond)
		if try%2 == 0 {
			broker.Restart()
		} else {
			net.during(broker.Crash)
		}
		if try < 3 {
			stop()
		}
		require.NoError(t, <-ended)
		stop()
	}
	requireLanes(t, lanesOf(t, m, rideTopics), lanesOf(t, copyOut(t, k, rideTopics), rideTopics))
}

// processed sums the records all tasks have processed.
func processed(w *Worker) int64 {
	n := int64(0)
	for _, task := range w.Status().Tasks {
		n += task.Processed
	}
	return n
}
