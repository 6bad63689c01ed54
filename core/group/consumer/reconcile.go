package consumer

import (
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/assign"
)

// reconciliation is one look at how a member gets from what it has to what it should have.
type reconciliation struct {
	g *Group
	// target and epoch are what the member should have, and the epoch that says so.
	target assign.Partitions
	epoch  int32
	// changed says that the member subscribes to other topics than before: what it does not
	// subscribe to any more is taken away even before there is a new target.
	changed bool
	// owned is what the member reports to have, nil if it does not say.
	owned []TopicPartitions
}

// reconcile moves the member on, writes it if it has changed, and minds its rebalance timeout.
func (g *Group) reconcile(now time.Time, m *member, b *reconciliation, fx *Effects,
) (*member, *refusal) {
	if !b.changed && m.reconciled(b.epoch) {
		return m, nil
	}
	next, r := b.next(m)
	if r != nil || sameCurrent(m, next) {
		return next, r
	}
	g.writeCurrent(now, next, fx)
	if next.classic != nil {
		return next, nil
	}
	if next.state == UnrevokedPartitions {
		g.armRebalance(now, next)
	} else {
		g.timers.Stop(&g.clock(next.id).rebalance)
	}
	return next, nil
}

// next is the member after this look.
func (b *reconciliation) next(m *member) (*member, *refusal) {
	switch m.state {
	case Stable:
		if m.epoch != b.epoch {
			return b.compute(m, m.epoch), nil
		}
		if b.changed {
			return b.unsubscribe(m), nil
		}
	case UnrevokedPartitions:
		if !b.reports(m.revoking) {
			return b.compute(m, m.epoch), nil
		}
		if b.changed {
			return b.unsubscribe(m), nil
		}
	case UnreleasedPartitions:
		return b.compute(m, m.epoch), nil
	default:
		if b.owned == nil || len(b.owned) > 0 {
			return m, refuse(coordinator.CodeFencedMemberEpoch, "The consumer group member is in a "+
				"unknown state. The member must abandon all its partitions and rejoin.")
		}
		return b.compute(m, b.epoch), nil
	}
	return m, nil
}

// reports says that the member has any of the partitions still, or does not say.
func (b *reconciliation) reports(of assignment) bool {
	if b.owned == nil {
		return true
	}
	for i := range b.owned {
		for _, p := range b.owned[i].Partitions {
			if of.has(b.owned[i].TopicID, p) {
				return true
			}
		}
	}
	return false
}

func (b *reconciliation) subscribed(m *member) map[uuid.UUID]struct{} {
	set := make(map[uuid.UUID]struct{})
	for _, id := range b.g.topicIDs(m) {
		set[id] = struct{}{}
	}
	return set
}

// unsubscribe takes away the topics that the member does not subscribe to any more; its epoch
// stays.
func (b *reconciliation) unsubscribe(m *member) *member {
	subscribed := b.subscribed(m)
	assigned, revoking := make(assignment), make(assignment)
	taken := false
	for topic, partitions := range m.revoking {
		for p, epoch := range partitions {
			revoking.put(topic, p, epoch)
		}
	}
	for topic, partitions := range m.assigned {
		if _, ok := subscribed[topic]; ok {
			assigned[topic] = partitions
			continue
		}
		taken = true
		for p, epoch := range partitions {
			revoking.put(topic, p, epoch)
		}
	}
	if !taken {
		return m
	}
	waits := len(revoking) > 0 && b.reports(revoking)
	return m.with(func(m *member) {
		m.enter(m.epoch)
		m.assigned = assigned
		if waits {
			m.state, m.revoking = UnrevokedPartitions, revoking
		}
	})
}

// compute is the next step: first all that the member should not have is taken away, in the epoch
// it is in; then it enters the new epoch with what is free, and waits for the rest.
func (b *reconciliation) compute(m *member, epoch int32) *member {
	subscribed := b.subscribed(m)
	kept, revoking := make(assignment), make(assignment)
	wanted := at(b.target, b.epoch)
	for topic := range wanted {
		if _, ok := subscribed[topic]; !ok {
			delete(wanted, topic)
		}
	}
	for topic, partitions := range m.assigned {
		for p, assignedAt := range partitions {
			if wanted.has(topic, p) {
				kept.put(topic, p, assignedAt)
			} else {
				revoking.put(topic, p, assignedAt)
			}
		}
	}
	if len(revoking) > 0 && b.reports(revoking) {
		return m.with(func(m *member) {
			m.state, m.assigned, m.revoking = UnrevokedPartitions, kept, revoking
			m.enter(epoch)
		})
	}
	state := Stable
	for topic, partitions := range wanted {
		for p := range partitions {
			if kept.has(topic, p) {
				continue
			}
			if _, taken := b.g.owners[partition{topic, p}]; taken && !m.revoking.has(topic, p) {
				state = UnreleasedPartitions
				continue
			}
			kept.put(topic, p, b.epoch)
		}
	}
	return m.with(func(m *member) {
		m.state, m.assigned, m.revoking = state, kept, nil
		m.enter(b.epoch)
	})
}
