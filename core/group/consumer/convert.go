package consumer

import (
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// FromClassic makes a consumer group of a classic one, whose members go on in the classic protocol
// until they join in the new one. It is in the generation that the classic group is in. The records
// of the change go to fx; a refusal is an answer for who asked.
func FromClassic(now time.Time, from *classic.Snapshot, config *Config, timers *Timers, fx *Effects,
) (*Group, *HeartbeatResponse) {
	g, r := fromClassic(now, from, config, timers, fx)
	if r != nil {
		resp := r.response()
		return nil, &resp
	}
	return g, nil
}

func fromClassic(now time.Time, from *classic.Snapshot, config *Config, timers *Timers, fx *Effects,
) (*Group, *refusal) {
	no := func(why string) (*Group, *refusal) {
		return nil, refuse(coordinator.CodeGroupIDNotFound,
			"Cannot upgrade classic group %s to consumer group because %s.", from.GroupID, why)
	}
	switch {
	case config.MigrationPolicy != MigrateBoth && config.MigrationPolicy != MigrateUpgrade:
		return no("online upgrade is disabled")
	case from.ProtocolType != protocolType:
		return no("the group does not use the consumer embedded protocol")
	case len(from.Members) > config.MaxSize:
		return no("the group size exceeds the consumer group maximum size")
	}
	g := New(from.GroupID, config, timers)
	g.epoch, g.assignmentEpoch = from.Generation, from.Generation
	topics := config.Topics()
	for i := range from.Members {
		cm := &from.Members[i]
		assigned, userData, ok := readClassicAssignment(cm.Assignment)
		said, alsoOK := readSubscription(cm.Metadata)
		switch {
		case len(cm.Assignment) > 0 && !ok || !alsoOK:
			return no("the embedded consumer protocol is malformed")
		case len(userData) > 0:
			return no("an unsupported custom assignor is in use")
		}
		m := newMember(cm.MemberID)
		m.epoch, m.previousEpoch = from.Generation, from.Generation
		m.instance, m.rack = cm.InstanceID, said.rack
		m.rebalanceTimeoutMS = int32(cm.RebalanceTimeout.Milliseconds())
		m.clientID, m.clientHost = cm.ClientID, cm.ClientHost
		m.topics = sortedSet(said.topics)
		m.classic = &offsets.ConsumerClassic{
			SessionTimeoutMS: int32(cm.SessionTimeout.Milliseconds()),
		}
		for _, p := range cm.Protocols {
			m.classic.Protocols = append(m.classic.Protocols,
				offsets.ConsumerClassicProtocol{Name: p.Name, Metadata: p.Metadata})
		}
		g.targets[m.id] = byID(topics, assigned)
		m.assigned = at(g.targets[m.id], from.Generation)
		g.update(m)
		g.armClassicSession(now, m)
	}
	g.hash = hashTopics(topics, g.topicNames(g.members))
	g.writeAll(now, fx)
	return g, nil
}

// writeAll writes the whole group.
func (g *Group) writeAll(now time.Time, fx *Effects) {
	members := sortedMembers(g.members)
	for _, m := range members {
		g.writeMember(now, m, fx)
	}
	g.writeEpoch(now, g.epoch, g.hash, fx)
	for _, m := range members {
		g.writeTarget(now, m.id, g.targets[m.id], fx)
	}
	g.writeTargetEpoch(now, g.assignmentEpoch, g.assignedMS, fx)
	for _, m := range members {
		g.writeCurrent(now, m, fx)
	}
}

// downgradesWithout says that the group goes back to the classic protocol when these members leave.
func (g *Group) downgradesWithout(leaving []*member) bool {
	out := make(map[string]struct{}, len(leaving))
	for _, m := range leaving {
		out[m.id] = struct{}{}
	}
	rest := 0
	for id, m := range g.members {
		if _, ok := out[id]; ok {
			continue
		}
		rest++
		if m.classic == nil {
			return false
		}
	}
	return rest > 0 && g.mayDowngrade(rest)
}

// downgradesBy says that it does when this member is replaced by one of the classic protocol.
func (g *Group) downgradesBy(replaced *member) bool {
	if replaced.classic != nil {
		return false
	}
	for id, m := range g.members {
		if id != replaced.id && m.classic == nil {
			return false
		}
	}
	return g.mayDowngrade(len(g.members))
}

func (g *Group) mayDowngrade(size int) bool {
	policy := g.config.MigrationPolicy
	return (policy == MigrateBoth || policy == MigrateDowngrade) && size <= g.config.Classic.MaxSize
}

// downgrade ends the group and begins a classic one: without the leaving members, and with joining,
// which takes the place of one of them, if it is not nil.
func (g *Group) downgrade(now time.Time, leaving []*member, joining *member, rebalance bool,
	fx *Effects,
) *refusal {
	members := g.membersWith(joining)
	for _, m := range leaving {
		if joining == nil || m.id != joining.id {
			delete(members, m.id)
		}
	}
	g.tombstones(now, func(id string) string {
		// The records before these have put joining in the place of leaving.
		if joining != nil && id == leaving[0].id {
			return joining.id
		}
		return id
	}, fx)
	topics := g.config.Topics()
	snapshot := &classic.Snapshot{
		GroupID: g.id, Generation: g.epoch, ProtocolType: protocolType,
	}
	list := sortedMembers(members)
	for _, m := range list {
		protocols := make([]classic.Protocol, 0, len(m.classic.Protocols))
		for _, p := range m.classic.Protocols {
			protocols = append(protocols, classic.Protocol{Name: p.Name, Metadata: p.Metadata})
		}
		snapshot.Members = append(snapshot.Members, classic.MemberSnapshot{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeout: milliseconds(m.rebalanceTimeoutMS),
			SessionTimeout:   milliseconds(m.classic.SessionTimeoutMS),
			Protocols:        protocols,
		})
	}
	group, metadata, ok := classic.FromSnapshot(now, snapshot, g.config.Classic,
		g.config.ClassicTimers, func(i int, metadata []byte) ([]byte, bool) {
			said, ok := readSubscription(metadata)
			return appendClassicAssignment(topics, g.lastTarget(list[i]), said.version), ok
		})
	if !ok {
		return refuse(coordinator.CodeGroupIDNotFound, "Cannot downgrade group %s: a member's "+
			"subscription is malformed.", g.id)
	}
	fx.Downgrade = &Downgrade{Group: group, Metadata: metadata, Rebalance: rebalance}
	return nil
}
