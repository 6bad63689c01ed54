package classic

import (
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// replaceStatic gives the place of a static member to its new incarnation (KIP-345). In a stable
// group whose protocol stays the same nothing else happens: the assignment goes with the place.
func (g *Group) replaceStatic(now time.Time, t coordinator.Ticket, old *member, newID string,
	req *JoinRequest, fx *Effects,
) {
	oldLeader := g.leader
	g.endJoin(old, joinError(old.id, coordinator.CodeFencedInstanceID), fx)
	g.endSync(old, SyncResponse{Code: coordinator.CodeFencedInstanceID}, fx)
	m := g.rename(old, newID)
	g.timers.Arm(&m.timer, now.Add(time.Duration(req.SessionTimeoutMS)*time.Millisecond))
	before := *m
	g.updateMember(m, 0, req, fx)
	if g.state != Stable {
		g.setJoin(m, t, fx)
		g.rebalanceOrComplete(now, fx)
		return
	}
	if g.selectProtocol() != g.protocol {
		g.setJoin(m, t, fx)
		g.prepareRebalance(now, fx)
		return
	}
	resp := g.joined(m)
	if req.CanSkipAssignment {
		resp.SkipAssignment = m.id == g.leader // KIP-814
	} else {
		// Before v9 the leader has to be kept from assigning: it is told that another one leads.
		resp.Members, resp.Leader = nil, oldLeader
	}
	fx.reply(t, resp)
	fx.Record = g.metadata()
	fx.Undo = func(now time.Time, code ErrorCode, fx *Effects) {
		g.vote(m, -1)
		m.clientID, m.clientHost = before.clientID, before.clientHost
		m.session, m.rebalance = before.session, before.rebalance
		m.protocols = before.protocols
		g.vote(m, 1)
		back := g.rename(m, old.id)
		g.timers.Arm(&back.timer, now.Add(back.session))
		fx.reply(t, joinError("", writeCode(code)))
	}
}

// rename moves a member to a new id and returns it there; leadership and place in the order stay.
func (g *Group) rename(old *member, id string) *member {
	_, owesSync := g.pendingSync[old.id]
	g.drop(old)
	m := *old
	m.id = id
	g.insert(&m)
	if owesSync {
		g.pendingSync[id] = struct{}{}
	}
	if g.leader == old.id {
		g.leader = id
	}
	return &m
}

// writeCode is what members are told of a failed write: never a code of the offsets APIs.
func writeCode(code ErrorCode) ErrorCode {
	if code == coordinator.CodeInvalidCommitOffsetSize {
		return coordinator.CodeUnknownServerError
	}
	return code
}
