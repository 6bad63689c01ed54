package classic

import (
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// rebalanceOrComplete begins a rebalance, or sees whether the running one can end.
func (g *Group) rebalanceOrComplete(now time.Time, fx *Effects) {
	if g.state == PreparingRebalance {
		g.maybeCompleteJoin(now, fx)
		return
	}
	g.prepareRebalance(now, fx)
}

// prepareRebalance sends everyone to join again.
func (g *Group) prepareRebalance(now time.Time, fx *Effects) {
	if g.state == CompletingRebalance {
		g.failSyncs(coordinator.CodeRebalanceInProgress, fx)
	}
	g.timers.Stop(&g.syncTimer)
	clear(g.pendingSync)
	g.initial = g.state == Empty
	g.setState(PreparingRebalance, now)
	if !g.initial {
		g.timers.Arm(&g.joinTimer, now.Add(g.rebalanceTimeout()))
		g.maybeCompleteJoin(now, fx)
		return
	}
	delay := g.config.InitialRebalanceDelay
	g.newMemberAdded = false
	g.initialLeft = max(g.rebalanceTimeout()-delay, 0)
	g.timers.Arm(&g.joinTimer, now.Add(delay))
}

// maybeCompleteJoin ends PreparingRebalance early if everyone is back. A group that was empty waits
// for its initial delay in any case.
func (g *Group) maybeCompleteJoin(now time.Time, fx *Effects) {
	if g.state != PreparingRebalance || g.initial {
		return
	}
	if g.joining == len(g.members) && len(g.pending) == 0 {
		g.completeJoin(now, fx)
	}
}

// joinTimeOver ends the wait for members, or prolongs it if it is the initial one and someone came.
func (g *Group) joinTimeOver(now time.Time, fx *Effects) {
	if g.state != PreparingRebalance {
		return
	}
	if g.initial && g.newMemberAdded && g.initialLeft > 0 {
		g.newMemberAdded = false
		delay := min(g.config.InitialRebalanceDelay, g.initialLeft)
		g.initialLeft = max(g.initialLeft-delay, 0)
		g.timers.Arm(&g.joinTimer, now.Add(delay))
		return
	}
	g.completeJoin(now, fx)
}

// completeJoin begins the next generation with the members that are here.
func (g *Group) completeJoin(now time.Time, fx *Effects) {
	g.timers.Stop(&g.joinTimer)
	g.initial = false
	for _, m := range g.sorted() {
		if m.join == 0 && m.instance == nil {
			g.remove(m, fx)
		}
	}
	if len(g.members) > 0 && !g.electLeader() {
		// Only static members that are away: wait until they come back or their sessions end.
		g.timers.Arm(&g.joinTimer, now.Add(g.rebalanceTimeout()))
		return
	}
	g.generation++
	if len(g.members) == 0 {
		g.setState(Empty, now)
		g.protocol, g.leader = "", ""
		fx.Record = g.metadata()
		return
	}
	g.protocol = g.selectProtocol()
	g.setState(CompletingRebalance, now)
	for _, m := range g.sorted() {
		g.endJoin(m, g.joined(m), fx)
		m.isNew = false
		g.pendingSync[m.id] = struct{}{}
		g.timers.Arm(&m.timer, now.Add(m.session))
	}
	g.timers.Arm(&g.syncTimer, now.Add(g.rebalanceTimeout()))
}

// electLeader keeps the leader if it is back, else takes the first member that is.
func (g *Group) electLeader() bool {
	if m := g.members[g.leader]; m != nil && m.join != 0 {
		return true
	}
	for _, m := range g.sorted() {
		if m.join != 0 {
			g.leader = m.id
			return true
		}
	}
	return false
}

// syncTimeOver removes the members that joined and never asked for their assignment.
func (g *Group) syncTimeOver(now time.Time, fx *Effects) {
	if len(g.pendingSync) == 0 || g.state != CompletingRebalance && g.state != Stable {
		return
	}
	for _, m := range g.sorted() {
		if _, owes := g.pendingSync[m.id]; owes {
			g.remove(m, fx)
		}
	}
	g.prepareRebalance(now, fx)
}

// sessionOver removes a member that was silent for too long. One whose request waits here is not
// silent, unless it is new: then the wait itself has lasted too long.
func (g *Group) sessionOver(now time.Time, m *member, fx *Effects) {
	if !m.isNew && (m.join != 0 || m.sync != 0) {
		g.timers.Arm(&m.timer, now.Add(m.session))
		return
	}
	g.remove(m, fx)
	g.afterRemoval(now, fx)
}

// remove takes a member out; what it waits for is answered with UNKNOWN_MEMBER_ID.
func (g *Group) remove(m *member, fx *Effects) {
	g.endJoin(m, joinError(m.id, coordinator.CodeUnknownMemberID), fx)
	g.endSync(m, SyncResponse{Code: coordinator.CodeUnknownMemberID}, fx)
	g.drop(m)
	if g.leader != m.id {
		return
	}
	g.leader = ""
	if rest := g.sorted(); len(rest) > 0 {
		g.leader = rest[0].id
	}
}

// afterRemoval lets the group go on without the members that were removed.
func (g *Group) afterRemoval(now time.Time, fx *Effects) {
	if g.state != Empty {
		g.rebalanceOrComplete(now, fx)
	}
}
