package consumer

import "github.com/millstream-io/millstream/core/group/assign"

// Describe returns the group as an administrator sees it. Topics that are gone are left out.
func (g *Group) Describe() Description {
	d := Description{
		GroupID: g.id, State: g.State(), Epoch: g.epoch, AssignmentEpoch: g.assignmentEpoch,
		Assignor: g.preferredAssignor(g.members),
	}
	for _, m := range sortedMembers(g.members) {
		has := make(assignment)
		for _, a := range []assignment{m.assigned, m.revoking} {
			for topic, partitions := range a {
				for p, epoch := range partitions {
					has.put(topic, p, epoch)
				}
			}
		}
		d.Members = append(d.Members, MemberDescription{
			MemberID: m.id, InstanceID: m.instance, RackID: m.rack, Epoch: m.epoch,
			ClientID: m.clientID, ClientHost: m.clientHost, Topics: m.topics, Regex: m.regex,
			Assignment: g.named(has.plain()), Target: g.named(g.targets[m.id]),
			Classic: m.classic != nil,
		})
	}
	return d
}

func (g *Group) named(p assign.Partitions) []NamedPartitions {
	topics := g.config.Topics()
	list := make([]NamedPartitions, 0, len(p))
	for _, id := range sortedIDs(p) {
		if t, ok := topics.ByID(id); ok {
			tp := TopicPartitions{TopicID: id, Partitions: p[id]}
			list = append(list, NamedPartitions{Topic: t.Name, TopicPartitions: tp})
		}
	}
	return list
}
