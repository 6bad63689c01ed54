package classic

import (
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// maxClientIDInMemberID bounds the part of a member id that the client chooses, in bytes, so that
// the id fits into a record's string whatever the client calls itself.
const maxClientIDInMemberID = 1024

// maxPending bounds the ids a group has given out and that nobody has used: they cost a client
// nothing to ask for.
const maxPending = 10000

func joinError(memberID string, code ErrorCode) JoinResponse {
	return JoinResponse{Code: code, Generation: -1, MemberID: memberID}
}

// Join handles JoinGroup. The answer may come with a later call.
func (g *Group) Join(now time.Time, t coordinator.Ticket, req *JoinRequest, fx *Effects) {
	switch {
	case !g.accepts(req.MemberID):
		fx.reply(t, joinError(req.MemberID, coordinator.CodeGroupMaxSizeReached))
		g.forgetPending(req.MemberID)
		if m := g.members[req.MemberID]; m != nil {
			g.remove(m, fx)
		}
		g.maybeCompleteJoin(now, fx)
	case !g.supports(req.ProtocolType, req.Protocols):
		fx.reply(t, joinError(req.MemberID, coordinator.CodeInconsistentGroupProtocol))
	case req.MemberID == "":
		g.joinUnknown(now, t, req, fx)
	case g.pending[req.MemberID] != nil && req.InstanceID == nil: // static members are never pending
		g.addMember(now, t, req.MemberID, req, fx)
	default:
		g.joinKnown(now, t, req, fx)
	}
}

// accepts applies the limit of group.max.size. During a rebalance those that have come back count,
// so that a group that is too large loses the last to come.
func (g *Group) accepts(memberID string) bool {
	m := g.members[memberID]
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.join != 0 || g.joining < g.config.MaxSize
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < g.config.MaxSize
	default:
		return true
	}
}

// joinUnknown handles a member that has no id: it is told one (KIP-394), or added at once if it is
// static or speaks a version before 4.
func (g *Group) joinUnknown(now time.Time, t coordinator.Ticket, req *JoinRequest, fx *Effects) {
	if req.InstanceID != nil {
		newID := memberID(*req.InstanceID, req.NewID)
		if old, ok := g.static[*req.InstanceID]; ok {
			g.replaceStatic(now, t, g.members[old], newID, req, fx)
			return
		}
		g.addMember(now, t, newID, req, fx)
		return
	}
	newID := memberID(req.ClientID, req.NewID)
	if !req.RequireMemberID {
		g.addMember(now, t, newID, req, fx)
		return
	}
	if len(g.pending) >= maxPending {
		fx.reply(t, joinError("", coordinator.CodeGroupMaxSizeReached))
		return
	}
	timer := &Timer{Group: g, Run: func(now time.Time, fx *Effects) {
		delete(g.pending, newID)
		g.maybeCompleteJoin(now, fx)
	}}
	g.pending[newID] = timer
	g.timers.Arm(timer, now.Add(time.Duration(req.SessionTimeoutMS)*time.Millisecond))
	fx.reply(t, joinError(newID, coordinator.CodeMemberIDRequired))
}

func memberID(prefix, unique string) string {
	return prefix[:min(len(prefix), maxClientIDInMemberID)] + "-" + unique
}

func (g *Group) forgetPending(id string) {
	if timer := g.pending[id]; timer != nil {
		g.timers.Stop(timer)
		delete(g.pending, id)
	}
}

// joinKnown handles a member that says it is in the group.
func (g *Group) joinKnown(now time.Time, t coordinator.Ticket, req *JoinRequest, fx *Effects) {
	if code := g.validate(req.MemberID, req.InstanceID); code != coordinator.CodeNone {
		fx.reply(t, joinError(req.MemberID, code))
		return
	}
	m := g.members[req.MemberID]
	same := m.matches(req.Protocols)
	switch {
	case g.state == CompletingRebalance && same:
		// It did not get the answer to its join: give it again.
		fx.reply(t, g.joined(m))
	case g.state == Stable && same && g.leader != m.id:
		// Nothing new: back to this generation. A leader that joins again wants a rebalance, as
		// it may have seen changes that its own metadata does not show, such as new partitions.
		resp := g.joined(m)
		resp.Members = nil
		fx.reply(t, resp)
	case g.state == Empty:
		fx.reply(t, joinError(req.MemberID, coordinator.CodeUnknownMemberID))
	default:
		g.updateMember(m, t, req, fx)
		g.rebalanceOrComplete(now, fx)
	}
}

// joined is the answer to a member's join of this generation.
func (g *Group) joined(m *member) JoinResponse {
	resp := JoinResponse{
		Generation:   g.generation,
		ProtocolType: g.protocolType,
		Protocol:     g.protocol,
		Leader:       g.leader,
		MemberID:     m.id,
	}
	if m.id == g.leader {
		resp.Members = g.joinMembers()
	}
	return resp
}

func (g *Group) joinMembers() []JoinMember {
	list := make([]JoinMember, 0, len(g.members))
	for _, m := range g.sorted() {
		list = append(list, JoinMember{m.id, m.instance, m.metadata(g.protocol)})
	}
	return list
}

// addMember adds a new member and begins, or goes on with, a rebalance.
func (g *Group) addMember(now time.Time, t coordinator.Ticket, id string, req *JoinRequest,
	fx *Effects,
) {
	g.forgetPending(id)
	if len(g.members) == 0 {
		g.protocolType = req.ProtocolType
	}
	m := &member{id: id, instance: req.InstanceID, isNew: true}
	m.take(req)
	g.insert(m)
	g.setJoin(m, t, fx)
	if g.leader == "" {
		g.leader = id
	}
	if g.state == PreparingRebalance && g.previous == Empty {
		g.newMemberAdded = true
	}
	g.timers.Arm(&m.timer, now.Add(newMemberTimeout))
	g.rebalanceOrComplete(now, fx)
}

// take copies what a request says about the member.
func (m *member) take(req *JoinRequest) {
	m.clientID, m.clientHost = req.ClientID, req.ClientHost
	m.session = time.Duration(req.SessionTimeoutMS) * time.Millisecond
	m.rebalance = time.Duration(req.RebalanceTimeoutMS) * time.Millisecond
	m.protocols = req.Protocols
}

func (g *Group) updateMember(m *member, t coordinator.Ticket, req *JoinRequest, fx *Effects) {
	g.vote(m, -1)
	m.take(req)
	g.vote(m, 1)
	g.setJoin(m, t, fx)
}

// setJoin makes t the member's waiting join; one that already waits is sent away to try again.
func (g *Group) setJoin(m *member, t coordinator.Ticket, fx *Effects) {
	if m.join != 0 {
		fx.reply(m.join, joinError(m.id, coordinator.CodeRebalanceInProgress))
	} else if t != 0 {
		g.joining++
	}
	m.join = t
}

// endJoin answers the member's waiting join, if there is one.
func (g *Group) endJoin(m *member, resp JoinResponse, fx *Effects) {
	if m.join == 0 {
		return
	}
	fx.reply(m.join, resp)
	m.join = 0
	g.joining--
}
