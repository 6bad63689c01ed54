package server_test

import "github.com/twmb/franz-go/pkg/kmsg"

// subscriptionOf is the metadata of a consumer of the classic protocol.
func subscriptionOf(owned ...int32) string {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics, m.Generation = 3, []string{wireTopic}, -1
	if owned != nil {
		o := kmsg.NewConsumerMemberMetadataOwnedPartition()
		o.Topic, o.Partitions = wireTopic, owned
		m.OwnedPartitions = append(m.OwnedPartitions, o)
	}
	return string(m.AppendTo(nil))
}

// classicJoin joins as a classic consumer and returns its id.
func (w *groupWire) classicJoin(label, group, id, instance string, owned ...int32,
) *kmsg.JoinGroupResponse {
	r := joinRequest(group, id, "cooperative-sticky="+subscriptionOf(owned...))
	r.RebalanceTimeoutMillis = 5000
	if instance != "" {
		r.InstanceID = &instance
	}
	resp := w.ask(9, r).(*kmsg.JoinGroupResponse)
	id = resp.MemberID
	if resp.ErrorCode == 79 {
		r.MemberID = resp.MemberID
		resp = w.ask(9, r).(*kmsg.JoinGroupResponse)
	}
	// The ids are not uuids in both, so they are left out.
	shown := *resp
	shown.MemberID, shown.LeaderID = "id", ""
	for i := range shown.Members {
		shown.Members[i].MemberID = "id"
	}
	w.write(label, &shown)
	resp.MemberID = id
	return resp
}

func (w *groupWire) leaves(label, group, id string) {
	resp := w.ask(5, leaveRequest(group, id)).(*kmsg.LeaveGroupResponse)
	resp.Members[0].MemberID = "id"
	w.write(label, resp)
}

func (w *groupWire) classicSync(label, group, id string, generation int32, assign bool) {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.MemberID, r.Generation = group, id, generation
	r.ProtocolType, r.Protocol = new("consumer"), new("cooperative-sticky")
	if assign {
		m := kmsg.NewConsumerMemberAssignment()
		m.Version = 3
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic, topic.Partitions = wireTopic, []int32{0, 1, 2}
		m.Topics = append(m.Topics, topic)
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, m.AppendTo(nil)
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	w.send(label, 5, r)
}

// describeShape describes the groups without the ids of their members.
func (w *groupWire) describeShape(label string, groups ...string) {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = groups
	resp := w.ask(1, r).(*kmsg.ConsumerGroupDescribeResponse)
	for i := range resp.Groups {
		for j := range resp.Groups[i].Members {
			resp.Groups[i].Members[j].MemberID = "id"
		}
	}
	w.write(label, resp)
	classic := w.ask(6, describeRequest(groups...)).(*kmsg.DescribeGroupsResponse)
	for i := range classic.Groups {
		for j := range classic.Groups[i].Members {
			classic.Groups[i].Members[j].MemberID = "id"
		}
	}
	w.write(label+", classic", classic)
}

// consumerMigration takes a classic group with one member through the new protocol and back.
func (w *groupWire) consumerMigration() {
	g := "c-move"
	joined := w.classicJoin("classic joins", g, "", "")
	id := joined.MemberID
	w.classicSync("classic syncs", g, id, joined.Generation, true)
	w.describeShape("describe classic", g)
	w.beat("consumer joins", consumerBeat{group: g, member: "m1"})
	w.describeShape("describe upgraded", g)
	w.send("classic hears", 4, beatRequest(g, id, 1, nil))
	w.send("classic commits", 8, w.commitOf(g, id, 1, 0))
	w.classicSync("classic syncs in its epoch", g, id, 1, false)
	joined = w.classicJoin("classic gives back", g, id, "", 0, 1, 2)
	w.classicSync("classic syncs after giving back", g, id, joined.Generation, false)
	w.send("classic hears again", 4, beatRequest(g, id, joined.Generation, nil))
	joined = w.classicJoin("classic has given back", g, id, "", 0, 1)
	w.classicSync("classic syncs in the new epoch", g, id, joined.Generation, false)
	w.send("classic lives", 4, beatRequest(g, id, joined.Generation, nil))
	w.send("classic in an old generation", 4, beatRequest(g, id, 1, nil))
	w.beat("consumer gets it", consumerBeat{group: g, member: "m1", epoch: 2, delta: true})
	w.describeShape("describe both", g)
	w.send("classic heartbeat of the consumer", 4, beatRequest(g, "m1", 2, nil))
	w.classicJoin("a second classic joins", g, "", "i1")
	w.send("it leaves", 5, leaveRequest(g, "@i1", "nobody"))
	w.beat("consumer leaves", consumerBeat{group: g, member: "m1", epoch: -1})
	w.describeShape("describe downgraded", g)
	w.send("classic is told", 4, beatRequest(g, id, joined.Generation, nil))
	joined = w.classicJoin("classic joins again", g, id, "", 0, 1)
	w.classicSync("classic syncs again", g, id, joined.Generation, true)
	w.send("classic lives again", 4, beatRequest(g, id, joined.Generation, nil))
	w.leaves("classic leaves", g, id)
	w.beat("consumer takes the empty group", consumerBeat{group: g, member: "m1"})
	w.beat("and leaves", consumerBeat{group: g, member: "m1", epoch: -1})
	joined = w.classicJoin("classic takes it back", g, "", "")
	w.leaves("and leaves", g, joined.MemberID)
	w.describeShape("describe the end", g)
}
