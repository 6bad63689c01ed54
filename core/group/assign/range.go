package assign

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Range assigns ranges of each topic's partitions.
func Range(g Group) (map[string]Partitions, error) {
	members, err := g.prepared()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(members, compareStatic)
	subscribers := make(map[uuid.UUID]int32)
	for i := range members {
		for _, topic := range members[i].Topics {
			subscribers[topic]++
		}
	}
	next := make(map[uuid.UUID]int32)   // the first partition that is not assigned
	served := make(map[uuid.UUID]int32) // how many subscribers have had their turn
	result := make(map[string]Partitions, len(members))
	for i := range members {
		assigned := make(Partitions)
		for _, topic := range members[i].Topics {
			count, share := g.PartitionCounts[topic], g.PartitionCounts[topic]/subscribers[topic]
			if served[topic] < count%subscribers[topic] {
				share++
			}
			served[topic]++
			for ; share > 0; share-- {
				assigned[topic] = append(assigned[topic], next[topic])
				next[topic]++
			}
		}
		result[members[i].ID] = assigned
	}
	return result, nil
}

// compareStatic puts static members first, so that they get the same range whatever ids the others
// have after a restart.
func compareStatic(a, b Member) int {
	switch {
	case a.InstanceID != nil && b.InstanceID != nil:
		return cmp.Or(strings.Compare(*a.InstanceID, *b.InstanceID), strings.Compare(a.ID, b.ID))
	case a.InstanceID != nil:
		return -1
	case b.InstanceID != nil:
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}
