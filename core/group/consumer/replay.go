package consumer

import (
	"fmt"

	"github.com/millstream-io/millstream/core/group/assign"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// Apply makes one record part of the group's durable state. It serves the replay of a log and the
// group's own records once they are durable. gone says that the group has ended.
func (g *Group) Apply(key *offsets.Key, value []byte) (gone bool, err error) {
	if value == nil {
		return g.applyTombstone(key), nil
	}
	switch key.Kind {
	case offsets.KindConsumerGroup:
		var v offsets.ConsumerGroup
		if v, err = offsets.ReadConsumerGroup(value); err == nil {
			g.epoch, g.hash = v.Epoch, v.MetadataHash
		}
	case offsets.KindConsumerPartitions:
		g.partitionRecord = true
	case offsets.KindConsumerMember:
		var v offsets.ConsumerMember
		if v, err = offsets.ReadConsumerMember(value); err == nil {
			g.update(g.known(key.Member).with(func(m *member) { m.subscribe(&v) }))
		}
	case offsets.KindConsumerTarget:
		var v offsets.ConsumerTarget
		if v, err = offsets.ReadConsumerTarget(value); err == nil {
			g.assignmentEpoch, g.assignedMS = v.Epoch, v.Timestamp
		}
	case offsets.KindConsumerAssignment:
		var list []offsets.TopicPartitions
		if list, err = offsets.ReadConsumerAssignment(value); err == nil {
			target := make(assign.Partitions, len(list))
			for i := range list {
				target[list[i].TopicID] = list[i].Partitions
			}
			g.targets[key.Member] = target
		}
	case offsets.KindConsumerCurrent:
		var v offsets.ConsumerCurrent
		if v, err = offsets.ReadConsumerCurrent(value); err == nil {
			g.update(g.known(key.Member).with(func(m *member) { m.reconcileTo(&v) }))
		}
	case offsets.KindConsumerRegex:
		g.regexes[key.Regex], err = offsets.ReadConsumerRegex(value)
	}
	if err != nil {
		return false, fmt.Errorf("consumer group %q: %w", g.id, err)
	}
	return false, nil
}

// known is a member, or a new one.
func (g *Group) known(memberID string) *member {
	if m := g.members[memberID]; m != nil {
		return m
	}
	return newMember(memberID)
}

func (g *Group) applyTombstone(key *offsets.Key) (gone bool) {
	m := g.members[key.Member]
	switch key.Kind {
	case offsets.KindConsumerGroup:
		return true
	case offsets.KindConsumerPartitions:
		g.partitionRecord = false
	case offsets.KindConsumerMember:
		g.remove(m)
	case offsets.KindConsumerTarget:
		g.assignmentEpoch, g.assignedMS = noEpoch, 0
	case offsets.KindConsumerAssignment:
		delete(g.targets, key.Member)
	case offsets.KindConsumerCurrent:
		if m != nil {
			g.update(m.with(func(m *member) {
				m.epoch, m.previousEpoch = epochLeave, epochLeave
				m.assigned, m.revoking = nil, nil
			}))
		}
	case offsets.KindConsumerRegex:
		delete(g.regexes, key.Regex)
	}
	return false
}

// noEpoch is the epoch of targets that were taken away.
const noEpoch = -1

// update puts a member, new or changed, into the group's tables.
func (g *Group) update(m *member) {
	g.forget(g.members[m.id])
	g.members[m.id] = m
	if x := m.expression(); x != "" {
		g.subscribers[x]++
	}
	if m.instance != nil {
		g.static[*m.instance] = m.id
	}
	for _, a := range []assignment{m.assigned, m.revoking} {
		for topic, partitions := range a {
			for p := range partitions {
				g.owners[partition{topic, p}] = m.id
			}
		}
	}
}

// remove takes a member out of the group's tables and stops its deadlines.
func (g *Group) remove(m *member) {
	if m == nil {
		return
	}
	g.forget(m)
	delete(g.members, m.id)
	g.stopClocks(m.id)
}

// forget takes what m holds out of the group's tables.
func (g *Group) forget(m *member) {
	if m == nil {
		return
	}
	if x := m.expression(); x != "" {
		if g.subscribers[x]--; g.subscribers[x] == 0 {
			delete(g.subscribers, x)
		}
	}
	if m.instance != nil && g.static[*m.instance] == m.id {
		delete(g.static, *m.instance)
	}
	for _, a := range []assignment{m.assigned, m.revoking} {
		for topic, partitions := range a {
			for p := range partitions {
				if g.owners[partition{topic, p}] == m.id {
					delete(g.owners, partition{topic, p})
				}
			}
		}
	}
}
