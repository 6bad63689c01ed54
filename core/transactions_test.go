package core_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
)

// txnTopic makes a topic.
func txnTopic(t *testing.T, c *coretest.Cluster, name string, partitions int32) {
	t.Helper()
	cl := txnClient(t, c)
	_, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, 1, nil, name)
	require.NoError(t, err)
}

func txnClient(t *testing.T, c *coretest.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(c.Addr()), kgo.Dialer(c.Dialer())}, opts...)
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// producer is a client with a transactional id.
func producer(t *testing.T, c *coretest.Cluster, id string, opts ...kgo.Opt) *kgo.Client {
	opts = append([]kgo.Opt{
		kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, opts...)
	return txnClient(t, c, opts...)
}

// transact does one transaction that writes a value into each of some partitions.
func transact(t *testing.T, cl *kgo.Client, topic, value string, partitions int32, commit bool) {
	t.Helper()
	require.NoError(t, cl.BeginTransaction())
	for p := range partitions {
		r := &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)}
		require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
	}
	require.NoError(t, cl.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
}

// readCommitted reads a partition up to a number of values.
func readCommitted(t *testing.T, c *coretest.Cluster, topic string, partition int32, n int,
) []string {
	t.Helper()
	return readAll(t, c, topic, partition, n, kgo.ReadCommitted())
}

func readAll(t *testing.T, c *coretest.Cluster, topic string, partition int32, n int,
	level kgo.IsolationLevel,
) []string {
	t.Helper()
	cl := txnClient(t, c, kgo.FetchIsolationLevel(level), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	var values []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(values) < n {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// Transactions follow each other faster than markers are written: what the next one adds must not
// be refused because of them.
func TestTransactionsCommitAndAbort(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	txnTopic(t, c, "t", 3)
	cl := producer(t, c, "txn")
	var want []string
	const rounds = 100
	for n := range rounds {
		value := fmt.Sprint("v", n)
		transact(t, cl, "t", value, 3, n%3 != 1)
		if n%3 != 1 {
			want = append(want, value)
		}
	}
	for p := range int32(3) {
		require.Equal(t, want, readCommitted(t, c, "t", p, len(want)))
		require.Len(t, readAll(t, c, "t", p, rounds, kgo.ReadUncommitted()), rounds)
	}
}

// Rule 14: a client with the same transactional id takes over; the one before, a zombie, can
// neither write nor commit any more, and what it left open is aborted.
func TestKIP98_FencesZombieProducer(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	txnTopic(t, c, "t", 1)
	zombie := producer(t, c, "txn")
	transact(t, zombie, "t", "first", 1, true)
	require.NoError(t, zombie.BeginTransaction())
	lost := &kgo.Record{Topic: "t", Value: []byte("lost")}
	require.NoError(t, zombie.ProduceSync(t.Context(), lost).FirstErr())

	transact(t, producer(t, c, "txn"), "t", "second", 1, true)

	late := &kgo.Record{Topic: "t", Value: []byte("late")}
	require.Error(t, zombie.ProduceSync(t.Context(), late).FirstErr())
	require.Error(t, zombie.EndTransaction(t.Context(), kgo.TryCommit))
	require.Equal(t, []string{"first", "second"}, readCommitted(t, c, "t", 0, 2))
	require.NotContains(t, readAll(t, c, "t", 0, 3, kgo.ReadUncommitted()), "late")
}

// redpanda#6423: a transaction whose client is gone is aborted after its timeout; readers go on.
func TestTimedOutTransactionIsAborted(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
	}})
	txnTopic(t, c, "t", 1)
	gone := producer(t, c, "gone", kgo.TransactionTimeout(2*time.Second))
	require.NoError(t, gone.BeginTransaction())
	lost := &kgo.Record{Topic: "t", Value: []byte("lost")}
	require.NoError(t, gone.ProduceSync(t.Context(), lost).FirstErr())
	transact(t, producer(t, c, "other"), "t", "kept", 1, true)
	require.Equal(t, []string{"kept"}, readCommitted(t, c, "t", 0, 1))

	// A client that was late gives up its transaction and goes on (KIP-890).
	require.NoError(t, gone.EndTransaction(t.Context(), kgo.TryAbort))
	transact(t, gone, "t", "again", 1, true)
	require.Equal(t, []string{"kept", "again"}, readCommitted(t, c, "t", 0, 2))
}

// Rule 18: a topic that is deleted with a decided transaction in it holds nothing up.
func TestDeletedTopicDoesNotHoldATransactionUp(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	txnTopic(t, c, "kept", 1)
	txnTopic(t, c, "deleted", 1)
	cl := producer(t, c, "txn")
	for n := range 3 {
		require.NoError(t, cl.BeginTransaction())
		for _, topic := range []string{"kept", "deleted"} {
			if n == 0 || topic == "kept" {
				r := &kgo.Record{Topic: topic, Value: fmt.Append(nil, n)}
				require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
			}
		}
		if n == 0 {
			_, err := kadm.NewClient(cl).DeleteTopic(t.Context(), "deleted")
			require.NoError(t, err)
		}
		require.NoError(t, cl.EndTransaction(t.Context(), kgo.TryCommit))
	}
	require.Equal(t, []string{"0", "1", "2"}, readCommitted(t, c, "kept", 0, 3))
}
