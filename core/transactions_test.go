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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
