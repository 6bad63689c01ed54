package consumer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/assign"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// preferredAssignor is the one that most members ask for, the default if nobody asks.
func (g *Group) preferredAssignor(members map[string]*member) string {
	votes := make(map[string]int)
	for _, m := range members {
		if m.assignor != nil {
			votes[*m.assignor]++
		}
	}
	best := ""
	for name, n := range votes {
		// Of equally many, the one whose name comes last: uniform before range, as Kafka's map has
		// it.
		if c := cmp.Compare(n, votes[best]); best == "" || c > 0 || c == 0 && name > best {
			best = name
		}
	}
	return cmp.Or(best, g.config.Assignors[0])
}

func (g *Group) assignorChanged(old, updated *member) bool {
	if equalStrings(old.assignor, updated.assignor) && g.members[old.id] != nil {
		return false
	}
	members := g.membersWith(updated)
	return g.preferredAssignor(g.members) != g.preferredAssignor(members)
}

// lastTarget is what the last assignment has for a member, or for the static member it replaces.
func (g *Group) lastTarget(m *member) assign.Partitions {
	if m.instance != nil {
		return g.targets[g.static[*m.instance]]
	}
	return g.targets[m.id]
}

// mayAssign says that enough time has passed since the last assignment.
func (g *Group) mayAssign(now time.Time) bool {
	interval := cmp.Or(g.config.Group(g.id).AssignmentInterval, g.config.AssignmentInterval)
	return g.assignedMS == 0 || interval <= 0 ||
		now.UnixMilli() >= g.assignedMS+interval.Milliseconds()
}

// updateTarget computes a new target assignment if the group epoch is ahead of the last, and
// returns what it has for the member.
func (g *Group) updateTarget(now time.Time, epoch int32, updated *member, fx *Effects,
) (assign.Partitions, int32, *refusal) {
	if g.assignmentEpoch >= epoch || !g.mayAssign(now) {
		return g.lastTarget(updated), g.assignmentEpoch, nil
	}
	members := g.membersWith(updated)
	name := g.preferredAssignor(members)
	assignor := assign.ByName[name]
	if assignor == nil {
		return nil, 0, refuse(coordinator.CodeUnknownServerError, "The assignor %s is gone.", name)
	}
	topics := g.config.Topics()
	group := assign.Group{PartitionCounts: make(map[uuid.UUID]int32)}
	for _, m := range sortedMembers(members) {
		one := assign.Member{ID: m.id, InstanceID: m.instance, Topics: g.topicIDs(m)}
		one.Target = g.targets[m.id]
		if m.id == updated.id {
			one.Target = g.lastTarget(m)
		}
		for _, id := range one.Topics {
			topic, _ := topics.ByID(id)
			group.PartitionCounts[id] = topic.Partitions
		}
		group.Members = append(group.Members, one)
	}
	targets, err := assignor(group)
	if err != nil {
		return nil, 0, refuse(coordinator.CodeUnknownServerError,
			"Failed to compute a new target assignment for epoch %d: %v", epoch, err)
	}
	for i := range group.Members {
		id := group.Members[i].ID
		old, known := g.targets[id]
		if id == updated.id && g.members[id] == nil && g.lastTarget(updated) != nil {
			old, known = g.lastTarget(updated), true // written with the replacement
		}
		if !known || !equalPartitions(old, targets[id]) {
			g.writeTarget(now, id, targets[id], fx)
		}
	}
	g.writeTargetEpoch(now, epoch, now.UnixMilli(), fx)
	return targets[updated.id], epoch, nil
}

func equalPartitions(a, b assign.Partitions) bool {
	return maps.EqualFunc(a, b, func(x, y []int32) bool { return slices.Equal(x, y) })
}

func (g *Group) writeTarget(now time.Time, memberID string, p assign.Partitions, fx *Effects) {
	list := make([]offsets.TopicPartitions, 0, len(p))
	for _, topic := range sortedIDs(p) {
		list = append(list, offsets.TopicPartitions{TopicID: topic, Partitions: p[topic]})
	}
	key := offsets.Key{Kind: offsets.KindConsumerAssignment, Member: memberID}
	g.write(fx, now, key, offsets.AppendConsumerAssignment(list))
}

func (g *Group) writeTargetEpoch(now time.Time, epoch int32, at int64, fx *Effects) {
	record := offsets.ConsumerTarget{Epoch: epoch, Timestamp: at}
	g.write(fx, now, offsets.Key{Kind: offsets.KindConsumerTarget}, record.Append())
}
