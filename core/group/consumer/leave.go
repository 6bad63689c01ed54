package consumer

import (
	"maps"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/group/offsets"
)

// leave handles a heartbeat of a member that leaves, for good or, if static, for a while.
func (g *Group) leave(now time.Time, req *HeartbeatRequest, fx *Effects,
) (HeartbeatResponse, *refusal) {
	resp := HeartbeatResponse{MemberID: req.MemberID, MemberEpoch: req.MemberEpoch}
	if req.InstanceID == nil {
		m := g.members[req.MemberID]
		if m == nil {
			return resp, g.unknown(req.MemberID)
		}
		return resp, g.fence(now, []*member{m}, fx)
	}
	m := g.members[g.static[*req.InstanceID]]
	if r := g.holdsInstance(m, req.MemberID, *req.InstanceID); r != nil {
		return resp, r
	}
	if req.MemberEpoch == epochLeave {
		return resp, g.fence(now, []*member{m}, fx)
	}
	// It keeps its place, and what it has, until its session ends.
	away := m.with(func(m *member) {
		m.epoch, m.revoking = epochLeaveStatic, nil
		m.assigned = at(m.assigned.plain(), 0)
	})
	g.writeCurrent(now, away, fx)
	return resp, nil
}

// fenceByID takes a member out whose time is over.
func (g *Group) fenceByID(now time.Time, memberID string, fx *Effects) {
	m := g.members[memberID]
	if m == nil {
		return
	}
	if r := g.fence(now, []*member{m}, fx); r != nil {
		// The downgrade is not possible: the member goes all the same.
		*fx = Effects{}
		g.writeLeave(now, []*member{m}, fx)
	}
}

// fence takes members out. If only members of the classic protocol are left, the group goes back to
// it.
func (g *Group) fence(now time.Time, members []*member, fx *Effects) *refusal {
	if len(members) == 0 {
		return nil
	}
	if g.downgradesWithout(members) {
		return g.downgrade(now, members, nil, true, fx)
	}
	g.writeLeave(now, members, fx)
	return nil
}

func (g *Group) writeLeave(now time.Time, members []*member, fx *Effects) {
	rest := g.membersWith(nil)
	gone := make(map[string]int)
	for _, m := range members {
		g.writeRemoval(now, m.id, fx)
		delete(rest, m.id)
		if x := m.expression(); x != "" {
			gone[x]++
		}
	}
	for _, x := range slices.Sorted(maps.Keys(gone)) {
		if gone[x] == g.subscribers[x] {
			g.writeRegex(now, x, nil, fx)
		}
	}
	g.writeEpoch(now, g.epoch+1, hashTopics(g.config.Topics(), g.topicNames(rest)), fx)
	if len(rest) == 0 {
		g.writeTargetEpoch(now, g.epoch+1, 0, fx)
	}
}

// Tombstones ends the group: everything it has in the log.
func (g *Group) Tombstones(now time.Time, fx *Effects) {
	g.tombstones(now, func(id string) string { return id }, fx)
}

// tombstones names members with name, which knows who has taken whose place in records before
// these.
func (g *Group) tombstones(now time.Time, name func(string) string, fx *Effects) {
	members := sortedMembers(g.members)
	each := func(kind offsets.Kind) {
		for _, m := range members {
			g.write(fx, now, offsets.Key{Kind: kind, Member: name(m.id)}, nil)
		}
	}
	each(offsets.KindConsumerCurrent)
	each(offsets.KindConsumerAssignment)
	g.write(fx, now, offsets.Key{Kind: offsets.KindConsumerTarget}, nil)
	each(offsets.KindConsumerMember)
	for _, x := range slices.Sorted(maps.Keys(g.regexes)) {
		g.writeRegex(now, x, nil, fx)
	}
	g.write(fx, now, offsets.Key{Kind: offsets.KindConsumerPartitions}, nil)
	g.write(fx, now, offsets.Key{Kind: offsets.KindConsumerGroup}, nil)
}
