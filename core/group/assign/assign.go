package assign

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// ErrUnknownTopic says that a member subscribes to a topic whose partitions are not given.
var ErrUnknownTopic = errors.New("assign: subscription to an unknown topic")

// Partitions are partitions by topic; the lists are sorted and not empty.
type Partitions map[uuid.UUID][]int32

// Member is one member of a group.
type Member struct {
	ID string
	// InstanceID is nil for a dynamic member.
	InstanceID *string
	// Topics are those it subscribes to, each once.
	Topics []uuid.UUID
	// Target is what it was assigned last time. It is not changed.
	Target Partitions
}

// Group is what an assignor is given.
type Group struct {
	Members []Member
	// PartitionCounts are those of all topics that anyone subscribes to.
	PartitionCounts map[uuid.UUID]int32
}

// Func is an assignor. The answer has an entry for each member, unless nobody subscribes to
// anything: then it is empty.
type Func func(Group) (map[string]Partitions, error)

// ByName has the assignors under the names that clients ask for.
var ByName = map[string]Func{"range": Range, "uniform": Uniform}

// compareIDs orders topic ids as Java does: two signed numbers.
func compareIDs(a, b uuid.UUID) int {
	half := func(id uuid.UUID, from int) int64 {
		return int64(binary.BigEndian.Uint64(id[from:]))
	}
	return cmp.Or(cmp.Compare(half(a, 0), half(b, 0)), cmp.Compare(half(a, 8), half(b, 8)))
}

// prepared is a copy of the group with all lists sorted, after the check of the topics.
func (g *Group) prepared() ([]Member, error) {
	members := slices.Clone(g.Members)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	for i := range members {
		members[i].Topics = slices.SortedFunc(slices.Values(members[i].Topics), compareIDs)
		for _, topic := range members[i].Topics {
			if _, ok := g.PartitionCounts[topic]; !ok {
				return nil, fmt.Errorf("%w: %s", ErrUnknownTopic, topic)
			}
		}
	}
	return members, nil
}

// sortedTopics lists the keys of p in the order of compareIDs.
func sortedTopics[V any](p map[uuid.UUID]V) []uuid.UUID {
	topics := make([]uuid.UUID, 0, len(p))
	for topic := range p {
		topics = append(topics, topic)
	}
	slices.SortFunc(topics, compareIDs)
	return topics
}
