package consumer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// refusal is why a request is refused.
type refusal struct {
	code    ErrorCode
	message string
}

func refuse(code ErrorCode, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

func (r *refusal) response() HeartbeatResponse {
	return HeartbeatResponse{Code: r.code, Message: r.message}
}

// Validate checks what needs no group.
func (req *HeartbeatRequest) Validate(s *Settings) *HeartbeatResponse {
	if r := req.validate(s); r != nil {
		resp := r.response()
		return &resp
	}
	return nil
}

func (req *HeartbeatRequest) validate(s *Settings) *refusal {
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	invalid := func(message string) *refusal {
		return &refusal{coordinator.CodeInvalidRequest, message}
	}
	needsID := req.RequireMemberID || req.MemberEpoch > 0 || req.MemberEpoch == epochLeave
	switch {
	case needsID && blank(req.MemberID):
		return invalid("MemberId can't be empty.")
	case blank(req.GroupID):
		return invalid("GroupId can't be empty.")
	case req.InstanceID != nil && blank(*req.InstanceID):
		return invalid("InstanceId can't be empty.")
	case req.RackID != nil && blank(*req.RackID):
		return invalid("RackId can't be empty.")
	case req.MemberEpoch == epochJoin && req.RebalanceTimeoutMS == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case req.MemberEpoch == epochJoin && (req.Owned == nil || len(req.Owned) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case req.MemberEpoch == epochJoin && req.Topics == nil && req.Regex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when " +
			"(re-)joining.")
	case req.MemberEpoch == epochLeaveStatic && req.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case req.MemberEpoch < epochLeaveStatic:
		return invalid("MemberEpoch is invalid.")
	case req.Assignor != nil && !slices.Contains(s.Assignors, *req.Assignor):
		return refuse(coordinator.CodeUnsupportedAssignor,
			"ServerAssignor %s is not supported. Supported assignors: %s.", *req.Assignor,
			strings.Join(s.Assignors, ", "))
	}
	return nil
}

// Heartbeat handles ConsumerGroupHeartbeat for a valid request. A request that is refused has no
// effects.
func (g *Group) Heartbeat(now time.Time, req *HeartbeatRequest, fx *Effects) HeartbeatResponse {
	var resp HeartbeatResponse
	var r *refusal
	if req.MemberEpoch < 0 {
		resp, r = g.leave(now, req, fx)
	} else {
		resp, r = g.heartbeat(now, req, fx)
	}
	if r != nil {
		*fx = Effects{}
		return r.response()
	}
	return resp
}

func (g *Group) heartbeat(now time.Time, req *HeartbeatRequest, fx *Effects,
) (HeartbeatResponse, *refusal) {
	if r := g.full(req.MemberID, req.InstanceID); r != nil {
		return HeartbeatResponse{}, r
	}
	memberID := cmp.Or(req.MemberID, req.NewID)
	old, r := g.subscriber(now, memberID, req, fx)
	if r != nil {
		return HeartbeatResponse{}, r
	}
	g.visible = req.Visible
	updated := old.with(func(m *member) { m.take(req) })
	names := g.writeSubscription(now, old, updated, fx)
	regex, r := g.updateRegex(now, old, updated, fx)
	if r != nil {
		return HeartbeatResponse{}, r
	}
	bump := names || regex == regexResolved || g.assignorChanged(old, updated)
	epoch := g.epoch
	if bump || g.metadataStale() {
		epoch = g.updateEpoch(now, updated, bump, fx)
	}
	target, targetEpoch, r := g.updateTarget(now, epoch, updated, fx)
	if r != nil {
		return HeartbeatResponse{}, r
	}
	b := reconciliation{
		g: g, target: target, epoch: targetEpoch, owned: req.Owned,
		changed: names || regex != regexUnchanged,
	}
	if updated, r = g.reconcile(now, updated, &b, fx); r != nil {
		return HeartbeatResponse{}, r
	}
	g.armSession(now, memberID)
	resp := HeartbeatResponse{
		MemberID: updated.id, MemberEpoch: updated.epoch, IntervalMS: g.heartbeatInterval(),
	}
	full := req.RebalanceTimeoutMS != -1 && (req.Topics != nil || req.Regex != nil) &&
		req.Owned != nil
	if req.MemberEpoch == epochJoin || full || !sameAssignment(old.assigned, updated.assigned) {
		resp.Assignment = answered(updated.assigned)
	}
	return resp, nil
}

func answered(a assignment) []TopicPartitions {
	list := make([]TopicPartitions, 0, len(a))
	for _, tp := range a.list() {
		list = append(list, TopicPartitions{TopicID: tp.TopicID, Partitions: tp.Partitions})
	}
	return list
}

func (g *Group) heartbeatInterval() int32 {
	d := cmp.Or(g.config.Group(g.id).HeartbeatInterval, g.config.HeartbeatInterval)
	return int32(d.Milliseconds())
}

// take copies what a request says about the member: null is unchanged.
func (m *member) take(req *HeartbeatRequest) {
	if req.InstanceID != nil {
		m.instance = req.InstanceID
	}
	if req.RackID != nil {
		m.rack = req.RackID
	}
	if req.RebalanceTimeoutMS != -1 {
		m.rebalanceTimeoutMS = req.RebalanceTimeoutMS
	}
	if req.Assignor != nil {
		m.assignor = req.Assignor
	}
	if req.Topics != nil {
		m.topics = sortedSet(req.Topics)
	}
	if req.Regex != nil {
		m.regex = req.Regex
	}
	m.clientID, m.clientHost = req.ClientID, req.ClientHost
	m.classic = nil
}

// full applies the limit of members. A static member that comes back takes its own place.
func (g *Group) full(memberID string, instance *string) *refusal {
	if instance != nil {
		if _, ok := g.static[*instance]; ok {
			return nil
		}
	}
	if len(g.members) < g.config.MaxSize || g.members[memberID] != nil {
		return nil
	}
	return refuse(coordinator.CodeGroupMaxSizeReached,
		"The consumer group has reached its maximum capacity of %d members.", g.config.MaxSize)
}

// subscriber is the member that a request comes from, new if it joins.
func (g *Group) subscriber(now time.Time, memberID string, req *HeartbeatRequest, fx *Effects,
) (*member, *refusal) {
	joins := req.MemberEpoch == epochJoin
	if req.InstanceID != nil {
		return g.staticSubscriber(now, memberID, req, fx)
	}
	m := g.members[memberID]
	if m == nil {
		if !joins {
			return nil, g.unknown(memberID)
		}
		m = newMember(memberID)
	}
	return m, m.checkEpoch(req.MemberEpoch, req.Owned)
}

func (g *Group) unknown(memberID string) *refusal {
	return refuse(coordinator.CodeUnknownMemberID, "Member %s is not a member of group %s.",
		memberID, g.id)
}

func (g *Group) staticSubscriber(now time.Time, memberID string, req *HeartbeatRequest,
	fx *Effects,
) (*member, *refusal) {
	instance := *req.InstanceID
	m := g.members[g.static[instance]]
	if req.MemberEpoch != epochJoin {
		if r := g.holdsInstance(m, memberID, instance); r != nil {
			return nil, r
		}
		return m, m.checkEpoch(req.MemberEpoch, req.Owned)
	}
	if m == nil {
		if m = g.members[memberID]; m == nil {
			m = newMember(memberID)
		}
		return m, nil
	}
	if m.classic == nil && m.epoch != epochLeaveStatic {
		return nil, refuse(coordinator.CodeUnreleasedInstanceID,
			"Static member %s with instance id %s cannot join the group because the instance id is "+
				"owned by %s member.", memberID, instance, m.id)
	}
	return g.replace(now, m, memberID, fx), nil
}

// holdsInstance checks that m, which has the instance id, is the member that says so.
func (g *Group) holdsInstance(m *member, memberID, instance string) *refusal {
	switch {
	case m == nil:
		return refuse(coordinator.CodeUnknownMemberID, "Instance id %s is unknown.", instance)
	case m.id != memberID:
		return refuse(coordinator.CodeFencedInstanceID,
			"Static member %s with instance id %s was fenced by member %s.", memberID, instance, m.id)
	}
	return nil
}

// replace gives the place of a static member, with its assignment, to its new incarnation.
func (g *Group) replace(now time.Time, old *member, memberID string, fx *Effects) *member {
	m := old.with(func(m *member) { m.id, m.epoch, m.previousEpoch = memberID, 0, 0 })
	g.writeRemoval(now, old.id, fx)
	g.writeMember(now, m, fx)
	g.writeTarget(now, m.id, g.targets[old.id], fx)
	g.writeCurrent(now, m, fx)
	return m
}

// checkEpoch fences a member whose epoch is not the one it should be in. The epoch before that is
// fine if it shows that it has not got more than it was told: it missed the answer.
func (m *member) checkEpoch(epoch int32, owned []TopicPartitions) *refusal {
	switch {
	case epoch == epochJoin || epoch == m.epoch:
		return nil
	case epoch > m.epoch:
		return refuse(coordinator.CodeFencedMemberEpoch, "The consumer group member has a greater "+
			"member epoch (%d) than the one known by the group coordinator (%d). The member must "+
			"abandon all its partitions and rejoin.", epoch, m.epoch)
	case epoch == m.previousEpoch && m.ownsNoMore(owned):
		return nil
	}
	return refuse(coordinator.CodeFencedMemberEpoch, "The consumer group member has a smaller "+
		"member epoch (%d) than the one known by the group coordinator (%d). The member must "+
		"abandon all its partitions and rejoin.", epoch, m.epoch)
}

// ownsNoMore says that what a member reports is part of what is assigned to it.
func (m *member) ownsNoMore(owned []TopicPartitions) bool {
	if owned == nil {
		return false
	}
	for i := range owned {
		if m.assigned[owned[i].TopicID] == nil {
			return false
		}
		for _, p := range owned[i].Partitions {
			if !m.assigned.has(owned[i].TopicID, p) {
				return false
			}
		}
	}
	return true
}

// writeSubscription writes the member if it has changed, and says whether its topics have.
func (g *Group) writeSubscription(now time.Time, old, updated *member, fx *Effects) bool {
	if sameSubscription(old, updated) {
		return false
	}
	g.writeMember(now, updated, fx)
	return !slices.Equal(old.topics, updated.topics)
}

func (g *Group) writeMember(now time.Time, m *member, fx *Effects) {
	key := offsets.Key{Kind: offsets.KindConsumerMember, Member: m.id}
	g.write(fx, now, key, m.subscription().Append())
}

func (g *Group) writeCurrent(now time.Time, m *member, fx *Effects) {
	key := offsets.Key{Kind: offsets.KindConsumerCurrent, Member: m.id}
	g.write(fx, now, key, m.current().Append())
}

// writeRemoval takes a member out: what it has, what it should have, and what it said.
func (g *Group) writeRemoval(now time.Time, memberID string, fx *Effects) {
	for _, kind := range []offsets.Kind{
		offsets.KindConsumerCurrent, offsets.KindConsumerAssignment, offsets.KindConsumerMember,
	} {
		g.write(fx, now, offsets.Key{Kind: kind, Member: memberID}, nil)
	}
}

func (g *Group) writeEpoch(now time.Time, epoch int32, hash uint64, fx *Effects) {
	record := offsets.ConsumerGroup{Epoch: epoch, MetadataHash: hash}
	g.write(fx, now, offsets.Key{Kind: offsets.KindConsumerGroup}, record.Append())
}

// metadataStale says that hash was not computed with the present topics, or that the epoch for
// which it was did not become durable.
func (g *Group) metadataStale() bool {
	return g.hashedVersion != g.config.Topics().Version() || g.epoch < g.hashedEpoch
}

// updateEpoch begins a new group epoch if bump says so or the topics have changed.
func (g *Group) updateEpoch(now time.Time, updated *member, bump bool, fx *Effects) int32 {
	topics := g.config.Topics()
	hash := hashTopics(topics, g.topicNames(g.membersWith(updated)))
	epoch := g.epoch
	if bump || hash != g.hash {
		epoch++
		g.writeEpoch(now, epoch, hash, fx)
	}
	g.hashedVersion, g.hashedEpoch = topics.Version(), epoch
	if g.partitionRecord {
		g.write(fx, now, offsets.Key{Kind: offsets.KindConsumerPartitions}, nil)
	}
	return epoch
}
