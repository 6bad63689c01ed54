package server_test

import (
	"strings"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The chapters of TestErrorsAreKafkas about groups.

// join joins a classic group as its only member.
func (e *errorWire) join(group string, instance *string) (member string, generation int32) {
	e.t.Helper()
	req := joinRequest(group, "", "range=a")
	req.InstanceID = instance
	e.until(func() bool {
		resp, err := e.ask(7, req)
		require.NoError(e.t, err)
		joined := resp.(*kmsg.JoinGroupResponse)
		if joined.ErrorCode == 79 {
			req.MemberID = joined.MemberID
		}
		member, generation = joined.MemberID, joined.Generation
		return joined.ErrorCode == 0
	})
	return member, generation
}

func (e *errorWire) classicGroupErrors() {
	for _, version := range []int16{0, 3, 4, 5, 9} {
		group := e.name("join")
		e.send("no member id", version, joinRequest(group+strings.Repeat("x", int(version)), "",
			"range=a"))
		e.send("unknown member", version, joinRequest(group, "nobody", "range=a"))
		e.send("empty group id", version, joinRequest("", "", "range=a"))
		short := joinRequest(group, "", "range=a")
		short.SessionTimeoutMillis = 1
		e.send("session timeout of 1 ms", version, short)
		long := joinRequest(group, "", "range=a")
		long.SessionTimeoutMillis = 1 << 30
		e.send("session timeout of 12 days", version, long)
		e.send("no protocols", version, joinRequest(group+"p", ""))
	}
	group := e.name("stable")
	member, generation := e.join(group, nil)
	for _, version := range []int16{0, 3, 5} {
		e.send("wrong generation", version, syncRequest(group, member, generation+1, nil))
		e.send("unknown member", version, syncRequest(group, "nobody", generation, nil))
	}
	other := syncRequest(group, member, generation, nil, member)
	other.Protocol = new("sticky")
	e.send("another protocol", 5, other)
	e.send("while the leader has not synced", 3, beatRequest(group, member, generation, nil))
	e.send("while the leader has not synced", 7, e.commitTo(group, member, generation, "a", nil))
	e.send("right", 5, syncRequest(group, member, generation, nil, member))
	for _, version := range []int16{0, 3, 4} {
		e.send("right", version, beatRequest(group, member, generation, nil))
		e.send("wrong generation", version, beatRequest(group, member, generation+1, nil))
		e.send("unknown member", version, beatRequest(group, "nobody", generation, nil))
		e.send("unknown group", version, beatRequest(e.name("none"), member, generation, nil))
	}
	e.send("other protocols than the group's", 5, joinRequest(group, "", "sticky=a"))
	kind := joinRequest(group, "", "range=a")
	kind.ProtocolType = "connect"
	e.send("another protocol type", 5, kind)
	e.adminGroupErrors(group)
	for _, version := range []int16{0, 2, 3, 5} {
		e.send("unknown member", version, leaveRequest(group, "nobody"))
		e.send("unknown group", version, leaveRequest(e.name("none"), "nobody"))
	}
	e.send("right", 5, leaveRequest(group, member))
	e.send("of an empty group", 3, beatRequest(group, member, generation, nil))
	e.staticErrors()
}

func (e *errorWire) adminGroupErrors(stable string) {
	for _, version := range []int16{0, 5, 6} {
		e.send("stable group", version, describeRequest(stable))
		e.send("unknown group", version, describeRequest(e.name("none")))
	}
	for _, version := range []int16{0, 1, 2} {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{stable, e.name("none"), ""}
		e.send("group with members, unknown one, empty name", version, req)
	}
	topic := e.topic("od", 1)
	for _, group := range []string{stable, e.name("none")} {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		for _, name := range []string{topic, "no-such"} {
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = name
			rp := kmsg.NewOffsetDeleteRequestTopicPartition()
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
		label := "unknown group"
		if group == stable {
			label = "known and unknown topic"
		}
		e.send(label, 0, req)
	}
}

func (e *errorWire) staticErrors() {
	group, instance := e.name("static"), "i1"
	first, generation := e.join(group, &instance)
	_, err := e.ask(5, syncRequest(group, first, generation, &instance, first))
	require.NoError(e.t, err)
	e.join(group, &instance) // takes its place
	e.send("replaced static member", 3, beatRequest(group, first, generation, &instance))
	e.send("replaced static member", 5, syncRequest(group, first, generation, &instance, first))
	e.send("replaced static member", 7, e.commitTo(group, first, generation, "a", &instance))
	e.send("unknown instance", 3, beatRequest(group, first, generation, new("i2")))
	e.send("replaced static member", 5, staticJoin(group, first, instance, "range=a"))
	e.send("replaced static member", 4, leaveRequest(group, first+"@"+instance))
	e.send("unknown instance", 4, leaveRequest(group, "@i2"))
	e.send("by instance", 4, leaveRequest(group, "@"+instance))
}

// commitTo is an OffsetCommit of offset 5 of partition 0 of a topic that is there.
func (e *errorWire) commitTo(group, member string, generation int32, metadata string,
	instance *string,
) *kmsg.OffsetCommitRequest {
	name := e.name("commit")
	if _, ok := e.ids[name]; !ok {
		e.topic("commit", 1)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = group, member, generation, instance
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = name, e.ids[name]
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = 0, 5, &metadata
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (e *errorWire) commitErrors() {
	for _, version := range []int16{2, 5, 7, 8, 9, 10} {
		ask := func(label, group, member string, generation int32,
			change func(*kmsg.OffsetCommitRequestTopic),
		) {
			req := e.commitTo(group, member, generation, "m", nil)
			if change != nil {
				change(&req.Topics[0])
			}
			e.send(label, version, req)
		}
		ask("simple consumer", e.name("simple"), "", -1, nil)
		ask("unknown group with generation", e.name("none"), "x", 1, nil)
		ask("unknown member without generation", e.name("simple"), "x", -1, nil)
		ask("empty group with generation", e.name("simple"), "x", 3, nil)
		ask("empty group id", "", "", -1, nil)
		ask("unknown topic", e.name("simple"), "", -1, func(t *kmsg.OffsetCommitRequestTopic) {
			t.Topic, t.TopicID = "no-such", [16]byte{1, 2, 3}
		})
		ask("unknown partition", e.name("simple"), "", -1,
			func(t *kmsg.OffsetCommitRequestTopic) { t.Partitions[0].Partition = 9 })
		ask("long metadata", e.name("simple"), "", -1, func(t *kmsg.OffsetCommitRequestTopic) {
			t.Partitions[0].Metadata = new(strings.Repeat("x", 5000))
		})
	}
	for _, version := range []int16{1, 5, 7, 8, 9, 10} {
		for _, group := range []string{"simple", "none"} {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Group = e.name(group)
			topic := e.name("commit")
			req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: topic,
				Partitions: []int32{0, 9}})
			if version >= 8 {
				rg := kmsg.NewOffsetFetchRequestGroup()
				rg.Group = req.Group
				rg.Topics = append(rg.Topics,
					kmsg.OffsetFetchRequestGroupTopic{Topic: topic, TopicID: e.ids[topic],
						Partitions: []int32{0, 9}},
					kmsg.OffsetFetchRequestGroupTopic{Topic: "no-such", TopicID: [16]byte{1},
						Partitions: []int32{0}})
				req.Groups = append(req.Groups, rg)
			}
			e.send("group "+group, version, req)
		}
	}
	for _, version := range []int16{0, 1, 2, 3, 4, 6} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = "g", []string{"g", ""}
		e.send("group", version, req)
		if version > 0 {
			req.CoordinatorType = 1
			e.send("transaction", version, req)
			req.CoordinatorType = 9
			e.send("unknown type", version, req)
		}
	}
}

// consumerHeartbeat is a ConsumerGroupHeartbeat (KIP-848) that says everything.
func consumerHeartbeat(group, member string, epoch int32, topics ...string,
) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, member, epoch
	req.RebalanceTimeoutMillis = 5000
	req.SubscribedTopicNames = topics
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return req
}

func (e *errorWire) consumerGroupErrors() {
	group, member := e.name("consumer"), uuid.NewString()
	topic := e.topic("cg", 2)
	for _, version := range []int16{0, 1} {
		ask := func(label string, change func(*kmsg.ConsumerGroupHeartbeatRequest)) {
			req := consumerHeartbeat(e.name("refused"), uuid.NewString(), 0, topic)
			change(req)
			e.send(label, version, req)
		}
		ask("empty group id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" })
		ask("blank group id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "  " })
		ask("no member id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" })
		ask("no rebalance timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.RebalanceTimeoutMillis = -1
		})
		ask("no subscription", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames = nil
		})
		ask("no owned partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil })
		ask("empty instance id", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.InstanceID = new("")
		})
		ask("empty rack", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = new("") })
		ask("unknown assignor", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.ServerAssignor = new("no-such")
		})
		ask("unknown member with an epoch", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.MemberEpoch = 5
		})
		ask("epoch -3", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 })
		ask("leave of an unknown member", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.MemberEpoch = -1
		})
		ask("static leave without instance id", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.MemberEpoch = -2
		})
		if version > 0 {
			ask("invalid regular expression", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.SubscribedTopicRegex = new("(")
			})
		}
	}
	joined := e.send("join", 1, consumerHeartbeat(group, member, 0, topic))
	epoch := joined.(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch
	e.send("join again", 1, consumerHeartbeat(group, member, 0, topic))
	e.send("epoch too high", 1, consumerHeartbeat(group, member, epoch+9, topic))
	e.send("another member with an epoch", 1, consumerHeartbeat(group, uuid.NewString(), 3, topic))
	e.consumerGroupByOthers(group, member, epoch)
	static := consumerHeartbeat(group, uuid.NewString(), 0, topic)
	static.InstanceID = new("i1")
	e.send("static join", 1, static)
	second := consumerHeartbeat(group, uuid.NewString(), 0, topic)
	second.InstanceID = new("i1")
	e.send("instance id that is taken", 1, second)
	e.send("leave", 1, consumerHeartbeat(group, member, -1))
}

// consumerGroupByOthers asks the other APIs about a group of KIP-848.
func (e *errorWire) consumerGroupByOthers(group, member string, epoch int32) {
	for _, version := range []int16{0, 1} {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups = []string{group, e.name("none"), e.name("static"), ""}
		e.send("group, unknown one, classic one, empty name", version, req)
	}
	for _, version := range []int16{5, 6} {
		e.send("consumer group", version, describeRequest(group))
	}
	for _, version := range []int16{7, 8, 9, 10} {
		e.send("right epoch", version, e.commitTo(group, member, epoch, "m", nil))
		e.send("epoch too low", version, e.commitTo(group, member, epoch-1, "m", nil))
		e.send("epoch too high", version, e.commitTo(group, member, epoch+5, "m", nil))
		e.send("unknown member of a consumer group", version, e.commitTo(group, "x", epoch, "m", nil))
		e.send("consumer group, no generation", version, e.commitTo(group, "", -1, "m", nil))
	}
	e.send("consumer group, no such member", 4, beatRequest(group, "x", 1, nil))
	e.send("consumer group, consumer member", 4, beatRequest(group, member, epoch, nil))
	e.send("consumer group", 5, leaveRequest(group, "x"))
	e.send("consumer group", 5, syncRequest(group, "x", 1, nil))
	kind := joinRequest(group, "", "range=a")
	kind.ProtocolType = "connect"
	e.send("consumer group, another protocol type", 5, kind)
	e.send("consumer group, bad metadata", 5, joinRequest(group, "", "range=a"))
	for _, e9 := range []int32{epoch, epoch + 4} {
		req := kmsg.NewPtrOffsetFetchRequest()
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group, rg.MemberID, rg.MemberEpoch = group, &member, e9
		req.Groups = append(req.Groups, rg)
		label := "right epoch"
		if e9 != epoch {
			label = "wrong epoch"
		}
		e.send(label, 9, req)
	}
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{group}
	e.send("consumer group with members", 2, del)
}
