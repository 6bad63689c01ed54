package server_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// TestBrokerConfigsOfTopics: what topics are made of that name nothing themselves.
func TestBrokerConfigsOfTopics(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"num.partitions": "3", "auto.create.topics.enable": "false", "delete.topic.enable": "false",
		"max.request.partition.size.limit": "2", "offsets.topic.num.partitions": "7",
		"offsets.topic.segment.bytes": "2000000", "transaction.state.log.num.partitions": "6",
		"transaction.state.log.segment.bytes": "3000000", "transaction.state.log.min.isr": "1",
		"broker.rack": "r9",
	}})
	w := dial(t, c)
	create := newTopicRequest("t", -1, -1)
	create.SetVersion(5)
	require.Equal(t, int32(3), ask[*kmsg.CreateTopicsResponse](w, create).Topics[0].NumPartitions)
	meta := ask[*kmsg.MetadataResponse](w, metadataRequest(9, true, "none"))
	require.Equal(t, int16(3), meta.Topics[0].ErrorCode, "auto.create.topics.enable=false")
	require.Equal(t, "r9", *meta.Brokers[0].Rack)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.SetVersion(4)
	remove.TopicNames = []string{"t"}
	require.Equal(t, int16(73), ask[*kmsg.DeleteTopicsResponse](w, remove).Topics[0].ErrorCode)
	describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
	describe.ResponsePartitionLimit = 2000
	got := ask[*kmsg.DescribeTopicPartitionsResponse](w, describe)
	require.Len(t, got.Topics[0].Partitions, 2)
	require.Equal(t, int32(2), got.NextCursor.Partition)

	for kind, v := range map[int8]struct {
		topic, segment string
		partitions     int
	}{0: {"__consumer_offsets", "2000000", 7}, 1: {"__transaction_state", "3000000", 6}} {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.SetVersion(3)
		find.CoordinatorType, find.CoordinatorKey = kind, "x"
		require.Eventually(t, func() bool {
			return ask[*kmsg.FindCoordinatorResponse](w, find).ErrorCode == 0
		}, time.Minute, 10*time.Millisecond)
		meta := ask[*kmsg.MetadataResponse](w, metadataRequest(9, false, v.topic))
		require.Len(t, meta.Topics[0].Partitions, v.partitions, v.topic)
		bytes, _ := value(w, topicResource, v.topic, "segment.bytes")
		require.Equal(t, v.segment, bytes, v.topic)
	}
	isr, _ := value(w, topicResource, "__transaction_state", "min.insync.replicas")
	require.Equal(t, "1", isr)
}

// TestReplicationFactorsAreTakenAsSet: nobody gets fewer replicas than were asked for.
func TestReplicationFactorsAreTakenAsSet(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"default.replication.factor": "2", "offsets.topic.replication.factor": "2",
		"transaction.state.log.replication.factor": "2",
	}})
	w := dial(t, c)
	create := newTopicRequest("t", -1, -1)
	create.SetVersion(5)
	require.Equal(t, int16(38), ask[*kmsg.CreateTopicsResponse](w, create).Topics[0].ErrorCode)
	for kind := int8(0); kind <= 1; kind++ {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.SetVersion(3)
		find.CoordinatorType, find.CoordinatorKey = kind, "x"
		require.Equal(t, int16(15), ask[*kmsg.FindCoordinatorResponse](w, find).ErrorCode)
	}
}

// TestBrokersTellWhereTheyAre: listeners and directories are shown as they are, not as defaults.
func TestBrokersTellWhereTheyAre(t *testing.T) {
	w := dial(t, coretest.Start(t, coretest.Options{}))
	for name, want := range map[string]string{
		"broker.id": "1", "node.id": "1", "log.dirs": "/millstream/data",
		"listeners": "PLAINTEXT://broker:9092", "advertised.listeners": "PLAINTEXT://broker:9092",
	} {
		got, source := value(w, brokerResource, "1", name)
		require.Equal(t, want, got, name)
		require.Equal(t, int8(kmsg.ConfigSourceStaticBrokerConfig), source, name)
	}
}

// TestConnectionLimitsFollowTheConfigs: max.connections, per address and overrides, without
// restart.
func TestConnectionLimitsFollowTheConfigs(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	admin := dial(t, c)
	served := func() bool {
		conn, err := net.Dial("tcp", c.Addr())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		return answered(t, conn)
	}
	set := func(name, v string) {
		require.Zero(t, incremental(admin, brokerResource, "", name, 0, v, false))
	}
	for _, name := range []string{"max.connections", "max.connections.per.ip"} {
		require.Eventually(t, served, time.Minute, time.Millisecond, "%s is not set", name)
		set(name, "1")
		require.False(t, served(), name)
		set(name, "2147483647")
	}
	require.Eventually(t, served, time.Minute, time.Millisecond)
	set("max.connections.per.ip.overrides", "127.0.0.1:1")
	require.False(t, served())
	set("max.connections.per.ip.overrides", "127.0.0.1:50,10.0.0.1:1")
	require.Eventually(t, served, time.Minute, time.Millisecond)
}

// TestConnectionRateIsPaced: max.connection.creation.rate makes new connections wait, not fail.
func TestConnectionRateIsPaced(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	require.Zero(t, incremental(dial(t, c), brokerResource, "1", "max.connection.creation.rate", 0,
		"5", false))
	start := time.Now()
	for range 8 {
		conn, err := net.Dial("tcp", c.Addr())
		require.NoError(t, err)
		require.True(t, answered(t, conn))
		require.NoError(t, conn.Close())
	}
	require.Greater(t, time.Since(start), 400*time.Millisecond, "3 of 8 wait 200 ms each")
}

// TestSocketConfigsAreReadAtStart: the largest request and answer, and how long a connection may
// idle.
func TestSocketConfigsAreReadAtStart(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true, Config: map[string]string{
		"socket.request.max.bytes": "2000", "connections.max.idle.ms": "3000",
		"fetch.max.bytes": "1024",
	}, Change: func(o *core.Options) { o.Limits.StepTimeout = 5 * time.Second }})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 30)
	req := fetchRequest(11, "t", [16]byte{}, 0, 0)
	req.MaxBytes = 1 << 20
	got := ask[*kmsg.FetchResponse](w, req)
	require.Less(t, len(got.Topics[0].Partitions[0].RecordBatches), 1100)
	w.send(produceRequest(9, "t", [16]byte{}, 0, sizedBatch(t, 3000)))
	require.NoError(t, w.c.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := w.c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	idle := dial(t, c)
	requireHangUp(t, idle) // within a minute, not the ten of the default
}

// TestLogLevelsReallyChange: a logger set to DEBUG talks more, and is quiet again when that is
// taken back; levels are gone after a restart.
func TestLogLevelsReallyChange(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	const logger = kmsg.ConfigResourceType(8)
	level := func(name string) string {
		v, _ := value(w, logger, "1", name)
		return v
	}
	roll := func(name string) {
		newTopic(t, c, name, 1, map[string]*string{"internal.segment.bytes": new("100")})
		fill(t, w, name, 3)
	}
	require.Equal(t, "INFO", level("core.storage"))
	roll("quiet")
	require.NotContains(t, c.Log(), "segment rolled")
	require.Zero(t, incremental(w, logger, "1", "core.storage", 0, "DEBUG", false))
	require.Equal(t, "DEBUG", level("core.storage"))
	require.Equal(t, "INFO", level("core.server"))
	roll("loud")
	require.Contains(t, c.Log(), "segment rolled")
	require.Zero(t, incremental(w, logger, "1", "root", 0, "ERROR", false))
	require.Equal(t, "ERROR", level("core.server"))
	require.Equal(t, "DEBUG", level("core.storage"))
	require.Zero(t, incremental(w, logger, "1", "core.storage", 1, "", false))
	require.Equal(t, "ERROR", level("core.storage"))
	c.Restart()
	w = dial(t, c)
	require.Equal(t, "INFO", level("root"), "levels are kept in memory")
}

// TestRecreatedTopicIsAnother: settings, records and producers of a topic that was deleted are not
// those of the next one of its name (log.md 5.19).
func TestRecreatedTopicIsAnother(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	var ids [][16]byte
	for round := range 3 {
		id := newTopic(t, c, "t", 1, nil)
		require.NotContains(t, ids, id)
		ids = append(ids, id)
		_, source := value(w, topicResource, "t", "retention.ms")
		require.Equal(t, int8(5), source, "round %d", round)
		require.Zero(t, incremental(w, topicResource, "t", "retention.ms", 0, "-1", false))
		got := produceOne(w, produceRequest(9, "t", [16]byte{}, 0, idempotentBatch(t, 7, 0)))
		require.Zero(t, got.ErrorCode)
		require.Zero(t, got.BaseOffset, "round %d: a repeat of a producer that this topic knows", round)
		producers := kmsg.NewPtrDescribeProducersRequest()
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = "t", []int32{0}
		producers.Topics = append(producers.Topics, rt)
		active := ask[*kmsg.DescribeProducersResponse](w, producers).Topics[0].Partitions[0]
		require.Len(t, active.ActiveProducers, 1)
		if round > 0 {
			stale := produceOne(w, produceRequest(13, "", ids[round-1], 0, idempotentBatch(t, 7, 1)))
			require.Equal(t, int16(100), stale.ErrorCode, "the id of the topic before")
		}
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.SetVersion(4)
		remove.TopicNames = []string{"t"}
		require.Zero(t, ask[*kmsg.DeleteTopicsResponse](w, remove).Topics[0].ErrorCode)
		if round == 1 {
			c.Restart()
			w = dial(t, c)
		}
	}
}

// answered tells whether a connection is served: one over a limit is closed without an answer.
func answered(t *testing.T, conn net.Conn) bool {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(0)
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		return false
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	n, err := conn.Read(make([]byte, 4))
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "neither an answer nor an end")
	return n > 0
}

// idempotentBatch is one record of a producer.
func idempotentBatch(t *testing.T, id int64, seq int32) []byte {
	t.Helper()
	return batch(t, 1, record.BuilderOptions{Idempotent: true, ProducerID: id, BaseSequence: seq})
}
