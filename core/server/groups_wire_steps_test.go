package server_test

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The chapters of TestGroupsAnswerAsKafkaDoes.

func (w *groupWire) coordinators() {
	for _, version := range []int16{0, 1, 2, 3, 4, 6} {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKey, r.CoordinatorKeys = "w-x", []string{"w-x", ""}
		w.send("find", version, r)
		if version > 0 {
			r.CoordinatorType = 9
			w.send("find unknown type", version, r)
		}
	}
}

// strangers asks for groups and members that do not exist.
func (w *groupWire) strangers() {
	for _, version := range []int16{0, 3, 4, 5} {
		if version <= 4 {
			w.send("beat stranger", version, beatRequest("w-none", "x", 1, nil))
			w.send("beat no group", version, beatRequest("", "x", 1, nil))
		}
		w.send("sync stranger", version, syncRequest("w-none", "x", 1, nil))
		w.send("sync no group", version, syncRequest("", "x", 1, nil))
		w.send("leave stranger", version, leaveRequest("w-none", "x"))
	}
	bare := syncRequest("w-none", "x", 1, nil)
	bare.Protocol, bare.ProtocolType = nil, nil
	w.send("sync without protocol", 5, bare)
	for _, version := range []int16{0, 1, 4, 5, 6, 7, 9} {
		w.send("join no group", version, joinRequest("", "", "range=a"))
		w.send("join stranger", version, joinRequest("w-none", "zz", "range=a"))
		r := joinRequest("w-none", "", "range=a")
		r.SessionTimeoutMillis = 1
		w.send("join short session", version, r)
		w.send("join without protocols", version, joinRequest("w-refused", ""))
		r = joinRequest("w-refused", "", "range=a")
		r.ProtocolType = ""
		w.send("join without type", version, r)
	}
	for _, version := range []int16{0, 5, 6} {
		w.send("describe", version, describeRequest("w-none"))
	}
	for _, version := range []int16{2, 5, 7, 9, 10} {
		w.send("commit stranger", version, w.commit("w-none", "x", 1, wireTopic, 0, ""))
	}
}

// simpleConsumers commits and fetches offsets without members.
func (w *groupWire) simpleConsumers() {
	for _, version := range []int16{2, 5, 7, 9, 10} {
		for _, c := range []struct {
			name, member string
			topic        string
			partition    int32
			metadata     string
		}{
			{"commit", "", wireTopic, 0, "text"},
			{"commit with member", "zz", wireTopic, 1, ""},
			{"commit no topic", "", "no-such", 0, ""},
			{"commit no partition", "", wireTopic, 99, ""},
			{"commit long metadata", "", wireTopic, 0, strings.Repeat("x", 4097)},
		} {
			w.send(c.name, version,
				w.commit("w-simple", c.member, -1, c.topic, c.partition, c.metadata))
		}
	}
	for _, version := range []int16{1, 2, 5, 7, 8, 9, 10} {
		w.send("fetch", version, w.fetch(version, "w-simple", []string{wireTopic, "no-such"}))
		w.send("fetch none", version, w.fetch(version, "w-simple", []string{}))
		w.send("fetch stranger", version, w.fetch(version, "w-none", []string{wireTopic}))
		if version > 1 {
			w.send("fetch all", version, w.fetch(version, "w-simple", nil))
		}
	}
	w.send("describe simple", 5, describeRequest("w-simple"))
	for _, filter := range [][2][]string{
		{nil, []string{"CLASSIC"}}, {{"bogus"}, nil}, {nil, {"bogus"}}, {{"Stable"}, nil},
	} {
		r := kmsg.NewPtrListGroupsRequest()
		r.StatesFilter, r.TypesFilter = filter[0], filter[1]
		resp := w.ask(5, r).(*kmsg.ListGroupsResponse)
		resp.Groups = withoutRefused(resp.Groups)
		w.write("list", resp)
	}
}

// withoutRefused leaves out the group that only Kafka has, made by joins it refused.
func withoutRefused(groups []kmsg.ListGroupsResponseGroup) []kmsg.ListGroupsResponseGroup {
	kept := []kmsg.ListGroupsResponseGroup{}
	for _, g := range groups {
		if g.Group != "w-refused" {
			kept = append(kept, g)
		}
	}
	return kept
}

// awaitState waits until a group is in a state.
func (w *groupWire) awaitState(group, state string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		d := w.ask(5, describeRequest(group)).(*kmsg.DescribeGroupsResponse)
		return len(d.Groups) == 1 && d.Groups[0].State == state
	}, time.Minute, 5*time.Millisecond, "group %s does not become %s", group, state)
}

// life follows a group of one member through all states.
func (w *groupWire) life() {
	const g = "w-life"
	protocols := []string{"range=A", "rr=B"}
	id := w.send("join", 9, joinRequest(g, "", protocols...)).(*kmsg.JoinGroupResponse).MemberID
	w.send("describe pending", 6, describeRequest(g))
	w.send("beat pending", 4, beatRequest(g, id, 0, nil))
	w.send("commit pending", 8, w.commit(g, id, 0, wireTopic, 0, ""))
	joined := w.later(9, joinRequest(g, id, protocols...))
	w.awaitState(g, "PreparingRebalance")
	w.send("describe preparing", 6, describeRequest(g))
	w.send("beat preparing", 4, beatRequest(g, id, 0, nil))
	w.send("commit preparing", 8, w.commit(g, id, 0, wireTopic, 0, ""))
	w.send("commit preparing, admin", 8, w.commit(g, "", -1, wireTopic, 0, ""))
	w.write("joined", <-joined)
	w.send("describe completing", 6, describeRequest(g))
	w.send("beat completing", 4, beatRequest(g, id, 1, nil))
	w.send("commit completing", 8, w.commit(g, id, 1, wireTopic, 0, ""))
	w.send("join again completing", 9, joinRequest(g, id, protocols...))
	wrong := syncRequest(g, id, 1, nil, id)
	wrong.ProtocolType = new("connect")
	w.send("sync wrong type", 5, wrong)
	wrong.ProtocolType, wrong.Protocol = new("consumer"), new("rr")
	w.send("sync wrong protocol", 5, wrong)
	w.send("sync wrong generation", 5, syncRequest(g, id, 2, nil))
	w.send("sync", 5, syncRequest(g, id, 1, nil, id))
	w.send("sync again", 0, syncRequest(g, id, 1, nil))
	w.stable(g, id)

	// A second member comes, and the first does not come back within its rebalance timeout.
	w.send("join inconsistent", 9, joinRequest(g, "", "sticky=A"))
	other := joinRequest(g, "", "range=A")
	other.ProtocolType = "connect"
	w.send("join other type", 9, other)
	second := w.send("join second", 3, joinRequest(g, "", "range=C"))
	w.send("beat dropped", 4, beatRequest(g, id, 2, nil))
	id = second.(*kmsg.JoinGroupResponse).MemberID
	w.send("leave", 3, leaveRequest(g, "zz", id, "", "@i9"))
	w.send("describe empty", 6, describeRequest(g))
	w.send("beat empty", 4, beatRequest(g, id, 3, nil))
	w.send("commit empty", 8, w.commit(g, id, 3, wireTopic, 0, ""))
	w.send("commit empty, admin", 8, w.commit(g, "", -1, wireTopic, 0, ""))
	w.send("sync empty", 4, syncRequest(g, id, 3, nil))
	w.send("join empty", 9, joinRequest(g, id, "range=x"))
	w.send("delete", 2, deleteRequest(g, "w-none", ""))
	w.send("delete again", 2, deleteRequest(g))
	w.send("fetch deleted", 7, w.fetch(7, g, nil))
}

func deleteRequest(groups ...string) *kmsg.DeleteGroupsRequest {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = groups
	return r
}

// stable asks what a stable group of one member allows.
func (w *groupWire) stable(g, id string) {
	for _, version := range []int16{0, 4, 6} {
		w.send("describe stable", version, describeRequest(g))
	}
	w.send("beat", 4, beatRequest(g, id, 1, nil))
	w.send("beat old", 4, beatRequest(g, id, 0, nil))
	w.send("beat unknown", 4, beatRequest(g, "zz", 1, nil))
	w.send("beat instance", 4, beatRequest(g, id, 1, new("ii")))
	w.send("commit", 8, w.commit(g, id, 1, wireTopic, 0, ""))
	w.send("commit old", 8, w.commit(g, id, 0, wireTopic, 0, ""))
	w.send("commit unknown", 8, w.commit(g, "zz", 1, wireTopic, 0, ""))
	w.send("commit admin", 8, w.commit(g, "", -1, wireTopic, 0, ""))
	w.send("commit without generation", 8, w.commit(g, id, -1, wireTopic, 0, ""))
	w.send("delete stable", 2, deleteRequest(g))
	for _, del := range []struct{ name, group, topic string }{
		{"subscription that is none", g, wireTopic}, {"no group", "w-none", wireTopic},
		{"no topic", "w-simple", "no-such"}, {"offset", "w-simple", wireTopic},
		{"offset again", "w-simple", wireTopic},
	} {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = del.group
		topic := kmsg.NewOffsetDeleteRequestTopic()
		topic.Topic = del.topic
		topic.Partitions = append(topic.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
		r.Topics = append(r.Topics, topic)
		w.send("delete offsets: "+del.name, 0, r)
	}
}

// staticMembers replaces static members in all states (KIP-345, KIP-814).
func (w *groupWire) staticMembers() {
	const g = "w-static"
	one, two := new("i1"), new("i2")
	j := w.send("static join", 9, staticJoin(g, "", *one, "range=1", "rr=1"))
	first := j.(*kmsg.JoinGroupResponse).MemberID
	w.send("static sync", 5, syncRequest(g, first, 1, one, first))
	joining := w.later(9, staticJoin(g, "", *two, "range=2", "rr=2"))
	w.awaitState(g, "PreparingRebalance")
	w.send("static beat", 4, beatRequest(g, first, 1, one))
	w.send("static join again", 8, staticJoin(g, first, *one, "range=1", "rr=1"))
	second := (<-joining).(*kmsg.JoinGroupResponse)
	w.write("static second joined", second)
	w.send("static sync of all", 5, syncRequest(g, first, 2, one, first, second.MemberID))
	w.send("static second sync", 5, syncRequest(g, second.MemberID, 2, two))
	w.send("static describe", 6, describeRequest(g))

	j = w.send("static second back", 9, staticJoin(g, "", *two, "range=2", "rr=2"))
	back := j.(*kmsg.JoinGroupResponse).MemberID
	w.send("static second back sync", 5, syncRequest(g, back, 2, two))
	w.send("fenced beat", 4, beatRequest(g, second.MemberID, 2, two))
	w.send("fenced beat without instance", 4, beatRequest(g, second.MemberID, 2, nil))
	w.send("fenced sync", 5, syncRequest(g, second.MemberID, 2, two))
	fenced := w.commit(g, second.MemberID, 2, wireTopic, 0, "")
	fenced.InstanceID = two
	w.send("fenced commit", 8, fenced)
	w.send("fenced join", 9, staticJoin(g, second.MemberID, *two, "range=2", "rr=2"))
	w.send("fenced leave", 3, leaveRequest(g, second.MemberID+"@i2"))

	w.send("leader back", 5, staticJoin(g, "", *one, "range=1", "rr=1"))
	w.send("leader back", 9, staticJoin(g, "", *one, "range=1", "rr=1"))
	w.send("leader back changed", 9, staticJoin(g, "", *one, "range=9", "rr=1"))
	w.send("follower back changed", 9, staticJoin(g, "", *two, "range=9", "rr=1"))
	w.send("static describe", 6, describeRequest(g))
	w.send("leave by instance", 5, leaveRequest(g, "@i2"))
	w.send("static describe", 6, describeRequest(g))
	w.send("leave by instance again", 5, leaveRequest(g, "@i2"))
	w.send("leave by instance", 4, leaveRequest(g, "@i1"))
	w.send("static describe", 6, describeRequest(g))
}
