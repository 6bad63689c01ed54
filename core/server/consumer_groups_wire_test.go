package server_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const consumerGroupsGolden = "testdata/consumer_groups_kafka_4.4.0.txt"

// TestKIP848_AnswersAsKafkaDoes plays the life of consumer groups, with right and wrong requests,
// and compares with what an Apache Kafka 4.4.0 answered. Record it again with a fresh one-node
// Kafka with group.initial.rebalance.delay.ms=0, group.consumer.assignment.interval.ms=0 and
// offsets.topic.num.partitions=1:
//
//	go test ./core/server -run KIP848_AnswersAsKafka -record-from 127.0.0.1:19092
//
// What is left out of the comparison is told at TestGroupsAnswerAsKafkaDoes.
func TestKIP848_AnswersAsKafkaDoes(t *testing.T) {
	w := newGroupWire(t, newAnswerer(t, map[string]string{
		"group.initial.rebalance.delay.ms":      "0",
		"group.consumer.assignment.interval.ms": "0",
	}))
	w.prepare()
	w.consumerStrangers()
	w.consumerLife()
	w.consumerCommits()
	w.consumerStatic()
	w.consumerSubscriptions()
	w.consumerMigration()
	w.consumerRegex()
	w.consumerNewPartitions()
	compareAnswers(t, consumerGroupsGolden, w.out.String(), nil)
}

// consumerBeat is a ConsumerGroupHeartbeat.
type consumerBeat struct {
	group, member string
	epoch         int32
	instance      string
	topics        []string
	regex         *string
	assignor      string
	// owned are the partitions of wireTopic it reports, nil for unchanged.
	owned []int32
	delta bool // leaves out what has not changed
}

func (w *groupWire) beat(label string, b consumerBeat) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := w.send(label, 1, w.beatRequest(b))
	return resp.(*kmsg.ConsumerGroupHeartbeatResponse)
}

func (w *groupWire) beatRequest(b consumerBeat) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = cmp.Or(b.group, "c-life"), b.member, b.epoch
	if b.instance != "" {
		r.InstanceID = &b.instance
	}
	if b.assignor != "" {
		r.ServerAssignor = &b.assignor
	}
	r.SubscribedTopicNames, r.SubscribedTopicRegex = b.topics, b.regex
	if b.owned != nil {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(b.owned) > 0 {
			topic := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			topic.TopicID, topic.Partitions = w.topicID, b.owned
			r.Topics = append(r.Topics, topic)
		}
	}
	if !b.delta && b.epoch >= 0 {
		r.RebalanceTimeoutMillis = 5000
		if b.topics == nil && b.regex == nil {
			r.SubscribedTopicNames = []string{wireTopic}
		}
		if r.Topics == nil {
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		}
	}
	return r
}

func (w *groupWire) describeConsumer(label string, groups ...string) {
	for version := range int16(2) {
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Groups = groups
		w.send(label, version, r)
	}
}

func (w *groupWire) consumerStrangers() {
	w.beat("no group", consumerBeat{member: "m1", epoch: 3})
	w.beat("no group, leaves", consumerBeat{member: "m1", epoch: -1})
	w.beat("static leave without instance", consumerBeat{member: "m1", epoch: -2})
	w.beat("epoch -3", consumerBeat{member: "m1", epoch: -3})
	w.beat("no member id", consumerBeat{})
	w.beat("blank instance", consumerBeat{member: "m1", instance: " "})
	w.beat("owns when it joins", consumerBeat{member: "m1", owned: []int32{0}})
	w.beat("tells nothing when it joins", consumerBeat{member: "m1", delta: true})
	w.beat("unknown assignor", consumerBeat{member: "m1", assignor: "best"})
	w.beat("bad expression", consumerBeat{group: "c-bad", member: "m1", regex: new("(")})
	w.describeConsumer("describe nothing", "c-life", "c-bad", "")
	r := w.beatRequest(consumerBeat{member: "m1"})
	r.Group = ""
	w.send("no group id", 1, r)
	r = w.beatRequest(consumerBeat{member: "m1"})
	r.RebalanceTimeoutMillis = -1
	w.send("no timeout", 1, r)
	r = w.beatRequest(consumerBeat{member: "m1"})
	r.SubscribedTopicNames = nil
	w.send("no subscription", 1, r)
	w.send("list", 5, kmsg.NewPtrListGroupsRequest())
}

func (w *groupWire) consumerLife() {
	w.beat("m1 joins", consumerBeat{member: "m1"})
	w.describeConsumer("describe m1", "c-life")
	w.beat("m1 lives", consumerBeat{member: "m1", epoch: 2, delta: true})
	w.beat("m1 tells all", consumerBeat{member: "m1", epoch: 2, owned: []int32{0, 1, 2}})
	w.beat("m2 joins", consumerBeat{member: "m2"})
	w.describeConsumer("describe m1 has to give back", "c-life")
	w.beat("m1 hears", consumerBeat{member: "m1", epoch: 2, delta: true})
	w.describeConsumer("describe m1 gives back", "c-life")
	w.beat("m2 waits", consumerBeat{member: "m2", epoch: 3, delta: true})
	w.beat("m1 still has it", consumerBeat{
		member: "m1", epoch: 2, delta: true, owned: []int32{0, 1, 2},
	})
	w.beat("m1 has given back", consumerBeat{
		member: "m1", epoch: 2, delta: true, owned: []int32{0, 1},
	})
	w.beat("m2 gets it", consumerBeat{member: "m2", epoch: 3, delta: true, owned: []int32{}})
	w.describeConsumer("describe stable", "c-life")
	w.beat("m1 in its old epoch", consumerBeat{
		member: "m1", epoch: 2, delta: true, owned: []int32{0, 1},
	})
	w.beat("m1 in its old epoch with more", consumerBeat{
		member: "m1", epoch: 2, delta: true, owned: []int32{0, 1, 2},
	})
	w.beat("m1 in its old epoch, silent", consumerBeat{member: "m1", epoch: 2, delta: true})
	w.beat("m1 in a later epoch", consumerBeat{member: "m1", epoch: 9, delta: true})
	w.beat("m1 in a lost epoch", consumerBeat{member: "m1", epoch: 1, delta: true})
	w.beat("stranger", consumerBeat{member: "m9", epoch: 3, delta: true})
	w.beat("stranger leaves", consumerBeat{member: "m9", epoch: -1})
	w.beat("m1 joins again", consumerBeat{member: "m1"})
	for version := int16(5); version < 7; version++ {
		w.send("classic describe", version, describeRequest("c-life"))
	}
	w.adminOfLife()
	w.beat("m1 leaves", consumerBeat{member: "m1", epoch: -1})
	w.describeConsumer("describe m1 left", "c-life")
	w.beat("m2 inherits", consumerBeat{member: "m2", epoch: 3, delta: true})
	w.beat("m2 leaves", consumerBeat{member: "m2", epoch: -1})
	w.describeConsumer("describe empty", "c-life")
	w.send("list empty", 5, kmsg.NewPtrListGroupsRequest())
	w.beat("m3 joins the empty group", consumerBeat{member: "m3", assignor: "range"})
	w.beat("m4 joins", consumerBeat{member: "m4", assignor: "range"})
	w.describeConsumer("describe range", "c-life")
	w.beat("m3 leaves", consumerBeat{member: "m3", epoch: -1})
	w.beat("m4 leaves", consumerBeat{member: "m4", epoch: -1})
	w.send("delete", 2, deleteRequest("c-life"))
	w.describeConsumer("describe deleted", "c-life")
}

func (w *groupWire) adminOfLife() {
	for _, types := range [][]string{{"consumer"}, {"Classic"}, {"Consumer", "classic"}} {
		r := kmsg.NewPtrListGroupsRequest()
		r.TypesFilter = types
		w.send("list "+strings.Join(types, ","), 5, r)
	}
	for _, states := range []string{"Stable", "reconciling", "Empty"} {
		r := kmsg.NewPtrListGroupsRequest()
		r.StatesFilter = []string{states}
		w.send("list "+states, 5, r)
	}
	w.send("delete with members", 2, deleteRequest("c-life"))
	offsets := kmsg.NewPtrOffsetDeleteRequest()
	offsets.Group = "c-life"
	topic := kmsg.NewOffsetDeleteRequestTopic()
	topic.Topic = wireTopic
	topic.Partitions = append(topic.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
	offsets.Topics = append(offsets.Topics, topic)
	w.send("offsets in use", 0, offsets)
	w.send("classic heartbeat", 4, beatRequest("c-life", "m1", 2, nil))
	w.send("classic leave", 5, leaveRequest("c-life", "m9"))
	w.send("classic sync", 5, syncRequest("c-life", "m1", 2, nil))
	join := w.ask(9, joinRequest("c-life", "", "range=x")).(*kmsg.JoinGroupResponse)
	join.MemberID = "id"
	w.write("classic join, opaque", join)
	w.send("classic join, opaque", 9, joinRequest("c-life", "x", "range="))
}

// commitOf commits offset 5 of a partition of wireTopic.
func (w *groupWire) commitOf(group, member string, epoch, partition int32,
) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.Generation = group, member, epoch
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = wireTopic, w.topicID
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, 5
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	return r
}

func (w *groupWire) fetchOf(group string, member *string, epoch int32) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberID, g.MemberEpoch = group, member, epoch
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.TopicID, topic.Partitions = wireTopic, w.topicID, []int32{0, 1, 2}
	g.Topics = append(g.Topics, topic)
	r.Groups = append(r.Groups, g)
	return r
}

func (w *groupWire) consumerCommits() {
	g := "c-commit"
	w.beat("a joins", consumerBeat{group: g, member: "m1"})
	w.send("commit in its epoch, v8", 8, w.commitOf(g, "m1", 2, 0))
	w.send("commit in another epoch, v8", 8, w.commitOf(g, "m1", 1, 0))
	for version := int16(9); version < 11; version++ {
		w.send("commit in its epoch", version, w.commitOf(g, "m1", 2, 0))
		w.send("commit in a later epoch", version, w.commitOf(g, "m1", 3, 0))
		w.send("commit in an earlier epoch", version, w.commitOf(g, "m1", 1, 0))
		w.send("commit of a stranger", version, w.commitOf(g, "m9", 2, 0))
		w.send("commit of nobody", version, w.commitOf(g, "", -1, 0))
	}
	w.beat("b joins", consumerBeat{group: g, member: "m2"})
	w.beat("a hears", consumerBeat{group: g, member: "m1", epoch: 2, delta: true})
	w.send("commit of what it gives back", 9, w.commitOf(g, "m1", 2, 2))
	w.beat("a has given back", consumerBeat{
		group: g, member: "m1", epoch: 2, delta: true, owned: []int32{0, 1},
	})
	w.send("commit of the last epoch, its own", 9, w.commitOf(g, "m1", 2, 1))
	w.send("commit of the last epoch, given back", 9, w.commitOf(g, "m1", 2, 2))
	w.beat("b gets it", consumerBeat{group: g, member: "m2", epoch: 3, delta: true})
	w.send("commit of b", 9, w.commitOf(g, "m2", 3, 2))
	w.send("commit of b before it had it", 9, w.commitOf(g, "m2", 2, 2))
	for version := int16(9); version < 11; version++ {
		w.send("fetch of nobody", version, w.fetchOf(g, nil, -1))
		w.send("fetch of a", version, w.fetchOf(g, new("m1"), 3))
		w.send("fetch in another epoch", version, w.fetchOf(g, new("m1"), 2))
		w.send("fetch of a stranger", version, w.fetchOf(g, new("m9"), 3))
		w.send("fetch of no group", version, w.fetchOf("c-none", new("m9"), 3))
	}
	w.beat("a leaves", consumerBeat{group: g, member: "m1", epoch: -1})
	w.beat("b leaves", consumerBeat{group: g, member: "m2", epoch: -1})
	w.send("commit of an administrator", 9, w.commitOf(g, "", -1, 0))
	w.send("commit into the past", 9, w.commitOf(g, "m1", 3, 0))
	w.send("fetch at the end", 9, w.fetchOf(g, nil, -1))
}

func (w *groupWire) consumerStatic() {
	g := "c-static"
	static := func(member string, epoch int32) consumerBeat {
		return consumerBeat{group: g, member: member, epoch: epoch, instance: "i1", delta: epoch != 0}
	}
	w.beat("static joins", static("m1", 0))
	w.beat("another joins", consumerBeat{group: g, member: "m5"})
	w.beat("the instance is taken", static("m2", 0))
	w.beat("static joins again itself", static("m1", 0))
	w.beat("wrong member of the instance", static("m2", 2))
	w.beat("unknown instance", consumerBeat{
		group: g, member: "m2", epoch: 2, instance: "i9", delta: true,
	})
	b := static("m1", 2)
	b.owned = []int32{0, 1}
	w.beat("static gives back", b)
	w.beat("the other gets it", consumerBeat{group: g, member: "m5", epoch: 3, delta: true})
	w.beat("another instance leaves", static("m2", -2))
	w.beat("static goes away", static("m1", -2))
	w.describeConsumer("describe it is away", g)
	w.beat("it is away", static("m1", 3))
	w.beat("static comes back", static("m2", 0))
	w.describeConsumer("describe it is back", g)
	w.beat("its old id", static("m1", 3))
	w.beat("its new id", static("m2", 3))
	w.beat("static leaves", static("m2", -1))
	w.beat("the other lives", consumerBeat{group: g, member: "m5", epoch: 3, delta: true})
	w.beat("the other leaves", consumerBeat{group: g, member: "m5", epoch: -1})
}

func (w *groupWire) consumerSubscriptions() {
	g := "c-topics"
	w.beat("subscribes to none", consumerBeat{group: g, member: "m1", topics: []string{}})
	w.beat("subscribes to what is not there", consumerBeat{
		group: g, member: "m1", epoch: 1, topics: []string{"c-absent"}, delta: true,
	})
	w.beat("subscribes", consumerBeat{
		group: g, member: "m1", epoch: 2, topics: []string{wireTopic, "c-absent"}, delta: true,
	})
	w.describeConsumer("describe two topics", g)
	w.beat("unsubscribes", consumerBeat{
		group: g, member: "m1", epoch: 3, topics: []string{}, delta: true, owned: []int32{0, 1, 2},
	})
	w.describeConsumer("describe unsubscribed", g)
	w.beat("has given back", consumerBeat{
		group: g, member: "m1", epoch: 3, delta: true, owned: []int32{},
	})
	w.beat("changes its assignor", consumerBeat{
		group: g, member: "m1", epoch: 4, delta: true, assignor: "range",
	})
	w.describeConsumer("describe range", g)
	w.beat("leaves", consumerBeat{group: g, member: "m1", epoch: -1})
}

// beatUntil repeats a heartbeat until done, and writes the last answer down.
func (w *groupWire) beatUntil(label string, b consumerBeat,
	done func(*kmsg.ConsumerGroupHeartbeatResponse) bool,
) *kmsg.ConsumerGroupHeartbeatResponse {
	var resp *kmsg.ConsumerGroupHeartbeatResponse
	require.Eventually(w.t, func() bool {
		resp = w.ask(1, w.beatRequest(b)).(*kmsg.ConsumerGroupHeartbeatResponse)
		if resp.ErrorCode == 0 {
			b.epoch = resp.MemberEpoch
		}
		return done(resp)
	}, time.Minute, 20*time.Millisecond, label)
	w.write(label, resp)
	return resp
}

func assigned(resp *kmsg.ConsumerGroupHeartbeatResponse) bool {
	return resp.Assignment != nil && len(resp.Assignment.Topics) > 0
}

func (w *groupWire) consumerRegex() {
	g := "c-regex"
	w.beat("joins by expression", consumerBeat{group: g, member: "m1", regex: new("w.r[e-f]")})
	resp := w.beatUntil("is assigned", consumerBeat{
		group: g, member: "m1", epoch: 1, delta: true,
	}, assigned)
	w.describeConsumer("describe expression", g)
	w.beat("by a part of the name", consumerBeat{group: g, member: "m2", regex: new("wir")})
	w.beat("with the same expression", consumerBeat{
		group: g, member: "m3", regex: new("w.r[e-f]"),
	})
	w.beat("bad expression", consumerBeat{
		group: g, member: "m1", epoch: resp.MemberEpoch, regex: new("*"), delta: true,
	})
	for _, m := range []string{"m1", "m2", "m3"} {
		w.beat("leaves", consumerBeat{group: g, member: m, epoch: -1})
	}
	w.describeConsumer("describe nobody", g)
}

func (w *groupWire) consumerNewPartitions() {
	g := "c-grow"
	w.beat("joins", consumerBeat{group: g, member: "m1"})
	_, err := kadm.NewClient(w.broker.client(w.t)).UpdatePartitions(w.t.Context(), 5, wireTopic)
	require.NoError(w.t, err)
	w.beatUntil("hears of new partitions", consumerBeat{
		group: g, member: "m1", epoch: 2, delta: true,
	}, func(resp *kmsg.ConsumerGroupHeartbeatResponse) bool {
		return assigned(resp) && slices.Contains(resp.Assignment.Topics[0].Partitions, 4)
	})
	w.describeConsumer("describe grown", g)
}
