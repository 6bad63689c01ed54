package assign

import (
	"slices"

	"github.com/google/uuid"
)

// topicPartition is one partition.
type topicPartition struct {
	topic     uuid.UUID
	partition int32
}

// Uniform assigns about the same number of partitions to everyone, and keeps what is assigned.
func Uniform(g Group) (map[string]Partitions, error) {
	members, err := g.prepared()
	if err != nil {
		return nil, err
	}
	subscribed := make(map[uuid.UUID]struct{})
	homogeneous := true
	for i := range members {
		for _, topic := range members[i].Topics {
			subscribed[topic] = struct{}{}
		}
		homogeneous = homogeneous && slices.Equal(members[i].Topics, members[0].Topics)
	}
	switch {
	case len(subscribed) == 0:
		return map[string]Partitions{}, nil
	case homogeneous:
		return uniform(members, g.PartitionCounts), nil
	}
	return newBalance(members, sortedTopics(subscribed), g.PartitionCounts).run(), nil
}

// uniform assigns to members that all subscribe to the same topics: each may have its share of all
// partitions. What it has above that is taken away, and given with what nobody has to those below.
func uniform(members []Member, counts map[uuid.UUID]int32) map[string]Partitions {
	topics := members[0].Topics
	var free []topicPartition
	total := 0
	owned := ownedBy(members)
	for _, topic := range topics {
		for p := range counts[topic] {
			if _, ok := owned[topicPartition{topic, p}]; !ok {
				free = append(free, topicPartition{topic, p})
			}
		}
		total += int(counts[topic])
	}
	share, extra := total/len(members), total%len(members)
	result := make(map[string]Partitions, len(members))
	room := make([]int, len(members)) // how many each member may still get
	for i := range members {
		room[i] = share
		// One more for some: those that have it already before those that do not, while there are
		// enough members left that could take it.
		if extra > 0 {
			room[i]++
		}
		kept, revoked := keep(&members[i], topics, counts, &room[i])
		free = append(free, revoked...)
		switch {
		case extra > 0 && room[i] > 0 && len(members)-i > extra:
			room[i]--
		case extra > 0:
			extra--
		}
		result[members[i].ID] = kept
	}
	for i := range members {
		give := min(room[i], len(free))
		add(result[members[i].ID], free[:give])
		free = free[give:]
	}
	return result
}

// ownedBy is the set of partitions that someone has.
func ownedBy(members []Member) map[topicPartition]struct{} {
	owned := make(map[topicPartition]struct{})
	for i := range members {
		for topic, list := range members[i].Target {
			for _, p := range list {
				owned[topicPartition{topic, p}] = struct{}{}
			}
		}
	}
	return owned
}

// keep copies of a member's partitions as many as there is room for, and lists the others that are
// still to be assigned. Partitions and topics that are gone count as neither.
func keep(m *Member, topics []uuid.UUID, counts map[uuid.UUID]int32, room *int,
) (kept Partitions, revoked []topicPartition) {
	kept = make(Partitions)
	for _, topic := range sortedTopics(m.Target) {
		if !slices.Contains(topics, topic) {
			continue
		}
		for _, p := range m.Target[topic] {
			switch {
			case p >= counts[topic]:
			case *room > 0:
				*room--
				kept[topic] = append(kept[topic], p)
			default:
				revoked = append(revoked, topicPartition{topic, p})
			}
		}
	}
	return kept, revoked
}

// add puts partitions into their sorted lists.
func add(to Partitions, list []topicPartition) {
	for _, tp := range list {
		to[tp.topic] = append(to[tp.topic], tp.partition)
	}
	for topic := range to {
		slices.Sort(to[topic])
	}
}
