package classic

import (
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// Sync handles SyncGroup. The answer may come with a later call.
func (g *Group) Sync(now time.Time, t coordinator.Ticket, req *SyncRequest, fx *Effects) {
	if code := g.validateSync(req); code != coordinator.CodeNone {
		fx.reply(t, SyncResponse{Code: code})
		return
	}
	m := g.members[req.MemberID]
	switch g.state {
	case PreparingRebalance:
		fx.reply(t, SyncResponse{Code: coordinator.CodeRebalanceInProgress})
	case CompletingRebalance:
		g.synced(m)
		if m.sync != 0 {
			fx.reply(m.sync, SyncResponse{Code: coordinator.CodeRebalanceInProgress})
		}
		m.sync = t
		if m.id == g.leader {
			g.assign(now, req.Assignments, fx)
		}
	case Stable:
		g.synced(m)
		g.timers.Arm(&m.timer, now.Add(m.session))
		fx.reply(t, g.assigned(m.assignment))
	default:
		fx.reply(t, SyncResponse{Code: coordinator.CodeUnknownMemberID})
	}
}

func (g *Group) validateSync(req *SyncRequest) ErrorCode {
	if code := g.validate(req.MemberID, req.InstanceID); code != coordinator.CodeNone {
		return code
	}
	switch {
	case req.Generation != g.generation:
		return coordinator.CodeIllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType,
		req.Protocol != nil && *req.Protocol != g.protocol && g.protocol != "":
		return coordinator.CodeInconsistentGroupProtocol
	}
	return coordinator.CodeNone
}

// synced notes that a member has asked for its assignment.
func (g *Group) synced(m *member) {
	delete(g.pendingSync, m.id)
	if len(g.pendingSync) == 0 {
		g.timers.Stop(&g.syncTimer)
	}
}

func (g *Group) assigned(assignment []byte) SyncResponse {
	return SyncResponse{
		ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: assignment,
	}
}

// assign writes what the leader decided. The group is stable when that is durable; the members that
// wait are answered then. Members that the leader forgot have an empty assignment.
func (g *Group) assign(now time.Time, list []Assignment, fx *Effects) {
	byMember := make(map[string][]byte, len(list))
	for i := range list {
		byMember[list[i].MemberID] = list[i].Assignment
	}
	record := g.metadata()
	record.CurrentStateTimestamp = now.UnixMilli()
	for i := range record.Members {
		record.Members[i].Assignment = byMember[record.Members[i].MemberID]
	}
	fx.Record = record
	waiting := make([]coordinator.Ticket, 0, len(g.members))
	for i := range record.Members {
		m := g.members[record.Members[i].MemberID]
		if m.sync == 0 {
			continue
		}
		waiting = append(waiting, m.sync)
		g.endSync(m, g.assigned(record.Members[i].Assignment), fx)
		g.timers.Arm(&m.timer, now.Add(m.session))
	}
	fx.Undo = func(now time.Time, code ErrorCode, fx *Effects) {
		for _, t := range waiting {
			fx.reply(t, SyncResponse{Code: writeCode(code)})
		}
		g.prepareRebalance(now, fx)
	}
}

// endSync answers the member's waiting sync, if there is one.
func (g *Group) endSync(m *member, resp SyncResponse, fx *Effects) {
	fx.reply(m.sync, resp)
	m.sync = 0
}

// failSyncs answers all waiting syncs with code; the assignments of the last generation are void.
func (g *Group) failSyncs(code ErrorCode, fx *Effects) {
	for _, m := range g.sorted() {
		m.assignment = nil
		g.endSync(m, SyncResponse{Code: code}, fx)
	}
}

// Heartbeat handles Heartbeat: a valid one prolongs the session, in a rebalance too.
func (g *Group) Heartbeat(now time.Time, req *HeartbeatRequest) ErrorCode {
	if code := g.validate(req.MemberID, req.InstanceID); code != coordinator.CodeNone {
		return code
	}
	if req.Generation != g.generation {
		return coordinator.CodeIllegalGeneration
	}
	if g.state == Empty {
		return coordinator.CodeUnknownMemberID
	}
	g.touch(now, req.MemberID)
	if g.state == PreparingRebalance {
		return coordinator.CodeRebalanceInProgress
	}
	return coordinator.CodeNone
}

// touch prolongs the session of a member.
func (g *Group) touch(now time.Time, memberID string) {
	if m := g.members[memberID]; m != nil && !m.isNew {
		g.timers.Arm(&m.timer, now.Add(m.session))
	}
}

// Leave handles LeaveGroup; the outcomes are in the order of the members.
func (g *Group) Leave(now time.Time, members []LeaveMember, fx *Effects) []LeftMember {
	left := make([]LeftMember, 0, len(members))
	for _, lm := range members {
		left = append(left, LeftMember{LeaveMember: lm, Code: g.leave(lm, fx)})
	}
	for i := range left {
		if left[i].Code == coordinator.CodeNone {
			g.afterRemoval(now, fx)
			break
		}
	}
	return left
}

func (g *Group) leave(lm LeaveMember, fx *Effects) ErrorCode {
	id := lm.MemberID
	if id == "" {
		// An administrator removes a static member by its instance id alone.
		if lm.InstanceID == nil {
			return coordinator.CodeUnknownMemberID
		}
		current, ok := g.static[*lm.InstanceID]
		if !ok {
			return coordinator.CodeUnknownMemberID
		}
		id = current
	}
	if g.pending[id] != nil && lm.InstanceID == nil {
		g.forgetPending(id)
		return coordinator.CodeNone
	}
	if code := g.validate(id, lm.InstanceID); code != coordinator.CodeNone {
		return code
	}
	g.remove(g.members[id], fx)
	return coordinator.CodeNone
}

// CheckCommit says whether an OffsetCommit with these credentials is allowed; one that is prolongs
// the session of its member. Generation -1 without a member is an administrator or a consumer that
// assigns itself, which is only good as long as nobody is in the group.
func (g *Group) CheckCommit(now time.Time, memberID string, instance *string,
	generation int32,
) ErrorCode {
	if generation < 0 && g.state == Empty {
		return coordinator.CodeNone
	}
	if generation < 0 && memberID == "" && instance == nil {
		return coordinator.CodeUnknownMemberID
	}
	if code := g.validate(memberID, instance); code != coordinator.CodeNone {
		return code
	}
	switch {
	case generation != g.generation:
		return coordinator.CodeIllegalGeneration
	case g.state == CompletingRebalance:
		return coordinator.CodeRebalanceInProgress
	}
	g.touch(now, memberID)
	return coordinator.CodeNone
}

// CheckTransactionCommit says whether a member, or none, may commit offsets in a transaction
// (KIP-447): in any state, and without saying who it is.
func (g *Group) CheckTransactionCommit(memberID string, instance *string, generation int32,
) ErrorCode {
	if generation < 0 && (g.state == Empty || memberID == "" && instance == nil) {
		return coordinator.CodeNone
	}
	if code := g.validate(memberID, instance); code != coordinator.CodeNone {
		return code
	}
	if generation != g.generation {
		return coordinator.CodeIllegalGeneration
	}
	return coordinator.CodeNone
}
