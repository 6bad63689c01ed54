package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
)

// life is a client's connection to one life of the broker: between the moment of a crash and the
// end of the broker that crashed it still acknowledges what is lost, and who believed that must not
// go on with the next one.
type life struct{ over atomic.Bool }

func (l *life) dialer(c *coretest.Cluster) kgo.Opt {
	dial := c.Dialer()
	return kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if l.over.Load() {
			return nil, errors.New("this life is over")
		}
		return dial(ctx, network, addr)
	})
}

// redpanda#17827: what was answered to EndTxn holds, though the power fails before the markers are
// written, or COMPLETE is.
func TestCrashBetweenPrepareAndComplete(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	txnTopic(t, c, "t", 3)
	var want []string
	for n := range 20 {
		var alive life
		cl := producer(t, c, "txn", alive.dialer(c))
		value, commit := fmt.Sprint("v", n), n%4 != 3
		transact(t, cl, "t", value, 3, commit)
		alive.over.Store(true)
		c.Crash()
		cl.Close()
		if commit {
			want = append(want, value)
		}
	}
	for p := range int32(3) {
		require.Equal(t, want, readCommitted(t, c, "t", p, len(want)))
	}
}

// copier reads "in", writes "out" and commits both at once, and tells each step it takes.
type copier struct {
	session *kgo.GroupTransactSession
	step    chan struct{}
}

func newCopier(t *testing.T, c *coretest.Cluster, alive *life) *copier {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(c.Addr()), alive.dialer(c),
		kgo.TransactionalID("copier"), kgo.ConsumerGroup("copiers"), kgo.ConsumeTopics("in"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("out"),
		kgo.InstanceID("copier")) // so that the next life need not wait for the session of the last
	require.NoError(t, err)
	return &copier{session: session, step: make(chan struct{})}
}

// run copies until ctx ends.
func (cp *copier) run(ctx context.Context) {
	tell := func() {
		select {
		case cp.step <- struct{}{}:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		fetches := cp.session.PollRecords(ctx, 7)
		tell()
		if cp.session.Begin() != nil {
			return
		}
		var first error
		fetches.EachRecord(func(r *kgo.Record) {
			out := &kgo.Record{Partition: r.Partition, Value: r.Value}
			first = errors.Join(first, cp.session.ProduceSync(ctx, out).FirstErr())
		})
		tell()
		if _, err := cp.session.End(ctx, kgo.TransactionEndTry(first == nil)); err != nil {
			return
		}
		tell()
	}
}

// Consume, transform, produce: every input is in the output once, though the power fails at any
// step.
func TestExactlyOnceThroughCrashes(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	txnTopic(t, c, "in", 2)
	txnTopic(t, c, "out", 2)
	const inputs = 200
	var want []string
	feed := txnClient(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for n := range inputs {
		want = append(want, fmt.Sprint(n))
		for p := range int32(2) {
			r := &kgo.Record{Topic: "in", Partition: p, Value: fmt.Append(nil, n)}
			require.NoError(t, feed.ProduceSync(t.Context(), r).FirstErr())
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for done := false; !done; {
		var alive life
		cp := newCopier(t, c, &alive)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); cp.run(ctx) }()
		for range 4 + random.IntN(30) {
			select {
			case <-cp.step:
			case <-ended:
			case <-time.After(time.Second): // nothing is left to copy
			}
			if done = copied(t, c, inputs); done {
				break
			}
		}
		alive.over.Store(true)
		c.Crash()
		cancel()
		cp.session.Client().Close() // which fails what is being produced
		<-ended
	}
	for p := range int32(2) {
		require.Equal(t, want, readCommitted(t, c, "out", p, inputs))
	}
}

// copied tells whether the copiers have committed all inputs of both partitions.
func copied(t *testing.T, c *coretest.Cluster, inputs int64) bool {
	t.Helper()
	offsets, err := kadm.NewClient(txnClient(t, c)).FetchOffsets(t.Context(), "copiers")
	if err != nil {
		return false
	}
	all := true
	for p := range int32(2) {
		o, ok := offsets.Lookup("in", p)
		all = all && ok && o.At >= inputs
	}
	return all
}
