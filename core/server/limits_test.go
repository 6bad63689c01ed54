package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

const policyViolation = 44

func limited(t *testing.T, config ...string) (*coretest.Cluster, *wire) {
	t.Helper()
	settings := map[string]string{"offsets.topic.num.partitions": "3",
		"transaction.state.log.num.partitions": "3"}
	for i := 0; i < len(config); i += 2 {
		settings[config[i]] = config[i+1]
	}
	c := coretest.Start(t, coretest.Options{Config: settings})
	return c, dial(t, c)
}

// awaitCoordinator asks for the coordinator of every shard until it is there.
func awaitCoordinator(w *wire, kind int8, key string) {
	w.t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, kind, []string{key}
	require.Zero(w.t, ask[*kmsg.FindCoordinatorResponse](w, find).Coordinators[0].ErrorCode)
}

func joinCode(w *wire, group string) int16 {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType = 3, group, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30000, 30000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	req.Protocols = append(req.Protocols, p)
	for { // until the shard is loaded
		if code := ask[*kmsg.JoinGroupResponse](w, req).ErrorCode; code != 14 && code != 16 {
			return code
		}
	}
}

func commitCode(w *wire, group string) int16 {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t"
	topic.Partitions = append(topic.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	return ask[*kmsg.OffsetCommitResponse](w, req).Topics[0].Partitions[0].ErrorCode
}

// TestGroupsAreBounded: whatever would make a group too many is refused, also after a restart, and
// the groups that are there work on.
func TestGroupsAreBounded(t *testing.T) {
	c, w := limited(t, "millstream.groups.max", "3")
	newTopic(t, c, "t", 1, nil)
	awaitCoordinator(w, 0, "a")
	require.Zero(t, joinCode(w, "a"))
	require.Zero(t, joinCode(w, "b"))
	require.Zero(t, commitCode(w, "c"))
	refused := func() {
		t.Helper()
		require.EqualValues(t, policyViolation, joinCode(w, "d"))
		require.EqualValues(t, policyViolation, commitCode(w, "d"))
		beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		beat.Version, beat.Group, beat.MemberID = 1, "d", "m"
		beat.RebalanceTimeoutMillis, beat.SubscribedTopicNames = 1000, []string{"t"}
		beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, beat)
		require.EqualValues(t, policyViolation, resp.ErrorCode)
		require.Contains(t, *resp.ErrorMessage, "millstream.groups.max")
	}
	refused()
	require.Contains(t, c.Log(), "limit=millstream.groups.max")
	require.Equal(t, 3.0, scrape(t, c)["millstream_limit_refusals_total{limit=millstream.groups.max}"])
	require.Zero(t, commitCode(w, "c"))
	c.Restart()
	w = dial(t, c)
	awaitCoordinator(w, 0, "a")
	for _, group := range []string{"a", "b", "c"} { // every shard is loaded
		require.Eventually(t, func() bool { return commitCode(w, group) != 14 }, time.Minute,
			time.Millisecond)
	}
	refused()
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Version, remove.Groups = 2, []string{"c"}
	require.Zero(t, ask[*kmsg.DeleteGroupsResponse](w, remove).Groups[0].ErrorCode)
	require.Zero(t, commitCode(w, "d"))
}

// TestTransactionalIDsAreBounded: one too many is refused, those that are there go on.
func TestTransactionalIDsAreBounded(t *testing.T) {
	c, w := limited(t, "millstream.transactional.ids.max", "2")
	awaitCoordinator(w, 1, "a")
	init := func(id string) int16 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 4, &id, 10000
		req.ProducerID, req.ProducerEpoch = -1, -1
		for { // until the shard is loaded
			if code := ask[*kmsg.InitProducerIDResponse](w, req).ErrorCode; code != 14 && code != 16 {
				return code
			}
		}
	}
	require.Zero(t, init("a"))
	require.Zero(t, init("b"))
	require.EqualValues(t, policyViolation, init("c"))
	require.Contains(t, c.Log(), "limit=millstream.transactional.ids.max")
	require.Equal(t, 1.0,
		scrape(t, c)["millstream_limit_refusals_total{limit=millstream.transactional.ids.max}"])
	require.Zero(t, init("a"))
}

// TestProducerIDsAreBounded: a producer that is new to a partition is refused when it remembers as
// many as it may, or all partitions do; a thousand strangers leave nothing behind.
func TestProducerIDsAreBounded(t *testing.T) {
	c, w := limited(t, "millstream.partition.producer.ids.max", "2",
		"millstream.producer.ids.max", "3")
	newTopic(t, c, "t", 2, nil)
	produce := func(partition int32, id int64, sequence int32) (int16, string) {
		b := record.NewBuilder(record.BuilderOptions{Idempotent: true, ProducerID: id,
			BaseSequence: sequence})
		b.Append(record.Record{Value: []byte("v"), Timestamp: 1})
		batch, err := b.Build()
		require.NoError(t, err)
		p := produceOne(w, produceRequest(9, "t", [16]byte{}, partition, batch))
		message := ""
		if p.ErrorMessage != nil {
			message = *p.ErrorMessage
		}
		return p.ErrorCode, message
	}
	ok := func(partition int32, id int64, sequence int32) {
		t.Helper()
		code, message := produce(partition, id, sequence)
		require.Zero(t, code, message)
	}
	refused := func(partition int32, id int64, limit string) {
		t.Helper()
		code, message := produce(partition, id, 0)
		require.EqualValues(t, policyViolation, code)
		require.Contains(t, message, limit)
	}
	ok(0, 1, 0)
	ok(0, 2, 0)
	for id := int64(3); id < 1000; id++ {
		refused(0, id, "millstream.partition.producer.ids.max=2")
	}
	ok(0, 1, 1)
	ok(1, 3, 0)
	refused(1, 4, "millstream.producer.ids.max=3")
	ok(1, 3, 1)
	got := scrape(t, c)
	require.Equal(t, 3.0, got["millstream_producers{}"])
	require.Equal(t, 998.0, got["millstream_limit_refusals_total{limit=millstream.producer.ids.max}"])
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.Version, remove.TopicNames, remove.TimeoutMillis = 5, []string{"t"}, 10000
	require.Zero(t, ask[*kmsg.DeleteTopicsResponse](w, remove).Topics[0].ErrorCode)
	newTopic(t, c, "t", 2, nil)
	ok(1, 4, 0)
}

// TestPartitionsAreBounded: of a topic and of all, new ones and more of an old one; the cluster's
// own topics are made all the same.
func TestPartitionsAreBounded(t *testing.T) {
	c, w := limited(t, "millstream.partitions.max", "6", "millstream.topic.partitions.max", "4",
		"auto.create.topics.enable", "true")
	create := func(name string, n int32) (int16, string) {
		req := newTopicRequest(name, n, 1)
		req.Version = 7
		topic := ask[*kmsg.CreateTopicsResponse](w, req).Topics[0]
		if topic.ErrorMessage == nil {
			return topic.ErrorCode, ""
		}
		return topic.ErrorCode, *topic.ErrorMessage
	}
	code, message := create("a", 5)
	require.EqualValues(t, policyViolation, code)
	require.Contains(t, message, "millstream.topic.partitions.max=4")
	code, _ = create("a", 4)
	require.Zero(t, code)
	code, message = create("b", 3)
	require.EqualValues(t, policyViolation, code)
	require.Contains(t, message, "millstream.partitions.max=6")
	code, _ = create("b", 2)
	require.Zero(t, code)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version, grow.TimeoutMillis = 3, 10000
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "b", Count: 3}}
	require.EqualValues(t, policyViolation,
		ask[*kmsg.CreatePartitionsResponse](w, grow).Topics[0].ErrorCode)
	awaitCoordinator(w, 0, "g")
	two := newTopicRequest("c", 1, 1)
	two.Version = 7
	require.EqualValues(t, policyViolation,
		ask[*kmsg.CreateTopicsResponse](w, two).Topics[0].ErrorCode)
	require.Equal(t, 2, strings.Count(metricsPage(t, c), "millstream_high_watermark{topic=\"b\""))
}

// TestMemoryOfRequestsIsOneConfig: a third each for the parts, and no less than 1 MiB.
func TestMemoryOfRequestsIsOneConfig(t *testing.T) {
	for _, v := range []struct {
		value string
		part  float64
	}{{"-1", 256 << 20}, {"50331648", 16 << 20}, {"100", 1 << 20}} {
		c, _ := limited(t, "queued.max.request.bytes", v.value)
		got := scrape(t, c)
		for _, kind := range []string{"read buffers", "large requests", "large answers"} {
			name := fmt.Sprintf("millstream_request_memory_limit_bytes{kind=%s}", kind)
			require.Equal(t, v.part, got[name], "%s of %v", name, v.value)
		}
	}
}
