package consumer

import (
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// protocolType is that of consumers in the classic protocol.
const protocolType = classic.ConsumerProtocolType

// Join handles JoinGroup of a member that does not speak the new protocol. It never waits: the
// group assigns, and a rebalance is only that the member fetches what it has now.
func (g *Group) Join(now time.Time, req *classic.JoinRequest, fx *Effects) classic.JoinResponse {
	resp, r := g.join(now, req, fx)
	if r != nil {
		*fx = Effects{}
		return classic.JoinResponse{Code: r.code, Generation: -1, MemberID: resp.MemberID}
	}
	return resp
}

func (g *Group) join(now time.Time, req *classic.JoinRequest, fx *Effects,
) (resp classic.JoinResponse, r *refusal) {
	memberID, isNew := req.MemberID, req.MemberID == ""
	if isNew {
		memberID = req.NewID
	}
	if g.config.MigrationPolicy == MigrateNever {
		return resp, refuse(coordinator.CodeInconsistentGroupProtocol, "Migration is disabled.")
	}
	if r = g.full(memberID, req.InstanceID); r != nil {
		return resp, r
	}
	if !g.supports(req.ProtocolType, req.Protocols) {
		return resp, refuse(coordinator.CodeInconsistentGroupProtocol, "Protocols do not match.")
	}
	if isNew && req.RequireMemberID && req.InstanceID == nil {
		return classic.JoinResponse{MemberID: memberID, Generation: -1},
			&refusal{code: coordinator.CodeMemberIDRequired}
	}
	old, r := g.classicSubscriber(now, memberID, isNew, req.InstanceID, fx)
	if r != nil {
		return resp, r
	}
	said, ok := readSubscription(req.Protocols[0].Metadata)
	if !ok {
		return resp, refuse(coordinator.CodeInconsistentGroupProtocol, "Malformed subscription.")
	}
	g.visible = req.Visible
	updated := old.with(func(m *member) { m.takeClassic(req, &said) })
	replaced := g.replacedByInstance(req.InstanceID)
	names := g.writeSubscription(now, old, updated, fx)
	regex, r := g.updateRegex(now, old, updated, fx)
	if r != nil {
		return resp, r
	}
	bump := names || regex != regexUnchanged
	epoch := g.epoch
	if bump || g.metadataStale() {
		epoch = g.updateEpoch(now, updated, bump, fx)
	}
	owned := ownedBy(g.config.Topics(), said.owned)
	updated, downgraded, r := g.joinOrDowngrade(now, epoch, bump, updated, replaced, owned, fx)
	if r != nil {
		return resp, r
	}
	c := g.clock(updated.id)
	g.timers.Stop(&c.join)
	if !downgraded {
		g.timers.Arm(&c.session, now.Add(milliseconds(req.SessionTimeoutMS)))
		g.timers.Arm(&c.sync, now.Add(milliseconds(req.RebalanceTimeoutMS)))
	}
	return classic.JoinResponse{
		Generation: updated.epoch, ProtocolType: protocolType, MemberID: updated.id,
		Protocol: updated.classic.Protocols[0].Name,
	}, nil
}

// joinOrDowngrade assigns to the member; or, if it takes the place of the last one that spoke the
// new protocol, ends the group.
func (g *Group) joinOrDowngrade(now time.Time, epoch int32, changed bool, updated, replaced *member,
	owned []TopicPartitions, fx *Effects,
) (m *member, downgraded bool, r *refusal) {
	b := reconciliation{g: g, changed: changed, owned: owned}
	downgrade := replaced != nil && g.downgradesBy(replaced)
	if !downgrade {
		if b.target, b.epoch, r = g.updateTarget(now, epoch, updated, fx); r != nil {
			return nil, false, r
		}
		m, r = g.reconcile(now, updated, &b, fx)
		return m, false, r
	}
	rebalance := g.assignmentEpoch < epoch
	if !rebalance {
		b.target, b.epoch = g.lastTarget(updated), g.assignmentEpoch
		if updated, r = g.reconcile(now, updated, &b, fx); r != nil {
			return nil, false, r
		}
	}
	return updated, true, g.downgrade(now, []*member{replaced}, updated, rebalance, fx)
}

// replacedByInstance is the member whose instance id a static member brings, nil if there is none.
func (g *Group) replacedByInstance(instance *string) *member {
	if instance == nil {
		return nil
	}
	return g.members[g.static[*instance]]
}

func ownedBy(topics Topics, list []topicPartitions) []TopicPartitions {
	owned := make([]TopicPartitions, 0, len(list))
	for _, tp := range list {
		if t, ok := topics.ByName(tp.topic); ok {
			owned = append(owned, TopicPartitions{TopicID: t.ID, Partitions: tp.partitions})
		}
	}
	return owned
}

// supports says whether a member with these protocols could be in the group: at least one is listed
// by all that use the classic protocol.
func (g *Group) supports(kind string, protocols []classic.Protocol) bool {
	if kind != protocolType || len(protocols) == 0 {
		return false
	}
	return slices.ContainsFunc(protocols, func(p classic.Protocol) bool {
		for _, m := range g.members {
			if m.classic != nil && !slices.ContainsFunc(m.classic.Protocols,
				func(q offsets.ConsumerClassicProtocol) bool { return q.Name == p.Name }) {
				return false
			}
		}
		return true
	})
}

// classicSubscriber is the member that joins, new if it is.
func (g *Group) classicSubscriber(now time.Time, memberID string, isNew bool, instance *string,
	fx *Effects,
) (*member, *refusal) {
	if instance == nil {
		return g.known(memberID), nil
	}
	m := g.members[g.static[*instance]]
	if !isNew {
		return m, g.holdsInstance(m, memberID, *instance)
	}
	if m == nil {
		return newMember(memberID), nil
	}
	return g.replace(now, m, memberID, fx), nil
}

// takeClassic copies what a JoinGroup says about the member.
func (m *member) takeClassic(req *classic.JoinRequest, said *subscription) {
	if req.InstanceID != nil {
		m.instance = req.InstanceID
	}
	if said.rack != nil && *said.rack != "" {
		m.rack = said.rack
	}
	m.rebalanceTimeoutMS = req.RebalanceTimeoutMS
	m.topics, m.regex = sortedSet(said.topics), new("")
	m.clientID, m.clientHost = req.ClientID, req.ClientHost
	m.classic = &offsets.ConsumerClassic{SessionTimeoutMS: req.SessionTimeoutMS}
	for _, p := range req.Protocols {
		m.classic.Protocols = append(m.classic.Protocols,
			offsets.ConsumerClassicProtocol{Name: p.Name, Metadata: p.Metadata})
	}
}

// classicMember is a member of the classic protocol that says it is in a generation, which is its
// epoch.
func (g *Group) classicMember(id string, instance *string, generation int32,
) (*member, ErrorCode) {
	m := g.members[id]
	if instance != nil {
		m = g.members[g.static[*instance]]
		if r := g.holdsInstance(m, id, *instance); r != nil {
			return nil, r.code
		}
	}
	switch {
	case m == nil || m.classic == nil:
		return nil, coordinator.CodeUnknownMemberID
	case m.epoch != generation:
		return nil, coordinator.CodeIllegalGeneration
	}
	return m, coordinator.CodeNone
}

// Sync handles SyncGroup: the member gets what it was assigned when it joined.
func (g *Group) Sync(now time.Time, req *classic.SyncRequest) classic.SyncResponse {
	m, code := g.classicMember(req.MemberID, req.InstanceID, req.Generation)
	if code != coordinator.CodeNone {
		return classic.SyncResponse{Code: code}
	}
	first := m.classic.Protocols[0]
	if req.ProtocolType != nil && *req.ProtocolType != protocolType ||
		req.Protocol != nil && *req.Protocol != first.Name {
		return classic.SyncResponse{Code: coordinator.CodeInconsistentGroupProtocol}
	}
	if g.assignmentEpoch > m.epoch && m.state != UnrevokedPartitions {
		g.armJoin(now, m)
		return classic.SyncResponse{Code: coordinator.CodeRebalanceInProgress}
	}
	g.timers.Stop(&g.clock(m.id).sync)
	g.armClassicSession(now, m)
	said, _ := readSubscription(first.Metadata)
	return classic.SyncResponse{
		ProtocolType: protocolType, Protocol: first.Name,
		Assignment: appendClassicAssignment(g.config.Topics(), m.assigned.plain(), said.version),
	}
}

// ClassicHeartbeat handles Heartbeat: the member has to join again when there is something to give
// back or to get.
func (g *Group) ClassicHeartbeat(now time.Time, req *classic.HeartbeatRequest) ErrorCode {
	m, code := g.classicMember(req.MemberID, req.InstanceID, req.Generation)
	if code != coordinator.CodeNone {
		return code
	}
	g.armClassicSession(now, m)
	if m.epoch < g.assignmentEpoch || m.state == UnrevokedPartitions ||
		m.state == UnreleasedPartitions && !g.waitsForOthers(m) {
		g.armJoin(now, m)
		return coordinator.CodeRebalanceInProgress
	}
	return coordinator.CodeNone
}

func (g *Group) armClassicSession(now time.Time, m *member) {
	g.timers.Arm(&g.clock(m.id).session, now.Add(milliseconds(m.classic.SessionTimeoutMS)))
}

// armJoin gives the member its rebalance timeout to join again, counted from the first time it was
// told to.
func (g *Group) armJoin(now time.Time, m *member) {
	if t := &g.clock(m.id).join; !t.Armed() {
		g.timers.Arm(t, now.Add(milliseconds(m.rebalanceTimeoutMS)))
	}
}

// waitsForOthers says that something the member should have is still with someone.
func (g *Group) waitsForOthers(m *member) bool {
	for topic, list := range g.targets[m.id] {
		for _, p := range list {
			_, taken := g.owners[partition{topic, p}]
			if taken && !m.assigned.has(topic, p) {
				return true
			}
		}
	}
	return false
}

// Leave handles LeaveGroup; the outcomes are in the order of the request.
func (g *Group) Leave(now time.Time, members []classic.LeaveMember, fx *Effects,
) classic.LeaveResponse {
	var resp classic.LeaveResponse
	var leaving []*member
	for _, lm := range members {
		left := classic.LeftMember{LeaveMember: lm}
		m := g.members[lm.MemberID]
		if lm.InstanceID != nil {
			m = g.members[g.static[*lm.InstanceID]]
		}
		switch {
		case m == nil:
			left.Code = coordinator.CodeUnknownMemberID
		case lm.InstanceID != nil && lm.MemberID != "" && m.id != lm.MemberID:
			left.Code = coordinator.CodeFencedInstanceID
		case !slices.Contains(leaving, m):
			leaving = append(leaving, m)
		}
		resp.Members = append(resp.Members, left)
	}
	if r := g.fence(now, leaving, fx); r != nil {
		*fx = Effects{}
		return classic.LeaveResponse{Code: r.code}
	}
	return resp
}
