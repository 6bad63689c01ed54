package core_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
)

// fastCleaner has compaction look at the logs all the time.
var fastCleaner = map[string]string{"log.cleaner.backoff.ms": "5"}

// alterTopic sets topic configs while the broker runs.
func alterTopic(t *testing.T, admin *kadm.Client, topic string, configs map[string]string) {
	t.Helper()
	var list []kadm.AlterConfig
	for name, value := range configs {
		list = append(list, kadm.AlterConfig{Op: kadm.SetConfig, Name: name,
			Value: kadm.StringPtr(value)})
	}
	resp, err := admin.AlterTopicConfigs(testContext(t), list, topic)
	require.NoError(t, err)
	for _, r := range resp {
		require.NoError(t, r.Err, r.ErrMessage)
	}
}

// recordCount reads a topic's partition from the start to its present end.
func recordCount(t *testing.T, c *coretest.Cluster, topic string, partition int32) int {
	t.Helper()
	ends, err := kadm.NewClient(c.Client()).ListEndOffsets(testContext(t), topic)
	require.NoError(t, err)
	end, ok := ends.Lookup(topic, partition)
	require.True(t, ok)
	cl := c.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().AtStart()}}), kgo.KeepControlRecords())
	defer cl.Close()
	n, last := 0, int64(-1)
	for last < end.Offset-1 {
		fetches := cl.PollFetches(testContext(t))
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { n++; last = r.Offset })
	}
	return n
}

func TestCleanupPolicyChangesWhileTheBrokerRuns(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: fastCleaner})
	cl := c.Client()
	admin := kadm.NewClient(cl)
	small := "2000"
	_, err := admin.CreateTopic(testContext(t), 1, 1,
		map[string]*string{"internal.segment.bytes": &small}, "t")
	require.NoError(t, err)
	write := func(n int) {
		for i := range n {
			r := &kgo.Record{Topic: "t", Key: fmt.Append(nil, "k", i%3),
				Value: []byte(strings.Repeat("v", 200))}
			require.NoError(t, cl.ProduceSync(testContext(t), r).FirstErr())
		}
	}
	write(60)
	require.Equal(t, 60, recordCount(t, c, "t", 0))
	alterTopic(t, admin, "t", map[string]string{"cleanup.policy": "compact",
		"min.cleanable.dirty.ratio": "0.01"})
	require.Eventually(t, func() bool { return recordCount(t, c, "t", 0) < 20 },
		time.Minute, 5*time.Millisecond)

	alterTopic(t, admin, "t", map[string]string{"cleanup.policy": "delete"})
	write(60)
	require.GreaterOrEqual(t, recordCount(t, c, "t", 0), 60)
	c.Restart()
	require.GreaterOrEqual(t, recordCount(t, c, "t", 0), 60)
}

func TestCommittedOffsetsAreCompacted(t *testing.T) {
	config := map[string]string{"log.cleaner.backoff.ms": "5", "offsets.topic.num.partitions": "1"}
	c := coretest.Start(t, coretest.Options{Config: config})
	cl := c.Client()
	admin := kadm.NewClient(cl)
	_, err := admin.CreateTopic(testContext(t), 1, 1, nil, "t")
	require.NoError(t, err)
	commit := func(at int64) {
		t.Helper()
		offsets := kadm.Offsets{}
		offsets.AddOffset("t", 0, at, -1)
		require.NoError(t, admin.CommitAllOffsets(testContext(t), "g", offsets))
	}
	commit(1)
	alterTopic(t, admin, "__consumer_offsets", map[string]string{"internal.segment.bytes": "1000",
		"min.cleanable.dirty.ratio": "0.01"})
	for at := range int64(60) {
		commit(at)
	}
	require.Eventually(t, func() bool { return recordCount(t, c, "__consumer_offsets", 0) < 25 },
		time.Minute, 5*time.Millisecond)
	c.Crash()
	committed, err := kadm.NewClient(c.Client()).FetchOffsets(context.Background(), "g")
	require.NoError(t, err)
	got, ok := committed.Lookup("t", 0)
	require.True(t, ok)
	require.Equal(t, int64(59), got.At)
}
