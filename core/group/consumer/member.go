package consumer

import (
	"maps"
	"reflect"
	"slices"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/group/assign"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// MemberState is how far a member is with its target assignment.
type MemberState int8

// The states of a member; the numbers are those of its record.
const (
	// Stable: it has what the epoch it is in assigns to it.
	Stable MemberState = 0
	// UnrevokedPartitions: it has to give partitions back before it goes on.
	UnrevokedPartitions MemberState = 1
	// UnreleasedPartitions: it waits for partitions that others have not given back yet.
	UnreleasedPartitions MemberState = 2
	// unknownState is that of a record by a later version of Kafka: the member must join again.
	unknownState MemberState = 127
)

// The member epochs with a meaning of their own.
const (
	epochJoin        = 0
	epochLeave       = -1
	epochLeaveStatic = -2
)

// assignment is partitions by topic, each with the epoch in which it was assigned (KIP-1251). It is
// not changed once it is in a member.
type assignment map[uuid.UUID]map[int32]int32

// member is one member. It is not changed once it is in a group: an update is a new one.
type member struct {
	id                   string
	epoch, previousEpoch int32
	state                MemberState
	instance             *string
	rack                 *string
	rebalanceTimeoutMS   int32 // -1 if not known
	clientID, clientHost string
	topics               []string // subscribed by name: sorted, each once
	regex                *string  // subscribed by expression, nil or "" if not
	assignor             *string  // the one it asks for
	assigned, revoking   assignment
	classic              *offsets.ConsumerClassic // set while it uses the classic protocol
}

// newMember is a member that has said nothing yet.
func newMember(id string) *member {
	return &member{id: id, previousEpoch: -1, rebalanceTimeoutMS: -1, regex: new("")}
}

// with returns a copy of m, changed by fn.
func (m *member) with(fn func(*member)) *member {
	c := *m
	fn(&c)
	return &c
}

// expression is what the member subscribes to by expression, "" if it does not.
func (m *member) expression() string {
	if m == nil || m.regex == nil {
		return ""
	}
	return *m.regex
}

// enter moves the member to an epoch, from which it may have to be told again.
func (m *member) enter(epoch int32) { m.previousEpoch, m.epoch = m.epoch, epoch }

func equalStrings(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// sameSubscription says whether two members would be written as the same KindConsumerMember.
func sameSubscription(a, b *member) bool {
	return equalStrings(a.instance, b.instance) && equalStrings(a.rack, b.rack) &&
		a.rebalanceTimeoutMS == b.rebalanceTimeoutMS && a.clientID == b.clientID &&
		a.clientHost == b.clientHost && slices.Equal(a.topics, b.topics) &&
		equalStrings(a.regex, b.regex) && equalStrings(a.assignor, b.assignor) &&
		reflect.DeepEqual(a.classic, b.classic)
}

// sameCurrent says whether two members would be written as the same KindConsumerCurrent.
func sameCurrent(a, b *member) bool {
	return a.epoch == b.epoch && a.previousEpoch == b.previousEpoch && a.state == b.state &&
		sameAssignment(a.assigned, b.assigned) && sameAssignment(a.revoking, b.revoking)
}

func sameAssignment(a, b assignment) bool {
	return maps.EqualFunc(a, b, func(x, y map[int32]int32) bool { return maps.Equal(x, y) })
}

// reconciled says that the member has all that the epoch assigns to it.
func (m *member) reconciled(epoch int32) bool { return m.state == Stable && m.epoch == epoch }

// subscription is the member's KindConsumerMember.
func (m *member) subscription() *offsets.ConsumerMember {
	return &offsets.ConsumerMember{
		InstanceID: m.instance, RackID: m.rack, ClientID: m.clientID, ClientHost: m.clientHost,
		Topics: m.topics, Regex: m.regex, RebalanceTimeoutMS: m.rebalanceTimeoutMS,
		Assignor: m.assignor, Classic: m.classic,
	}
}

// subscribe takes over a KindConsumerMember.
func (m *member) subscribe(from *offsets.ConsumerMember) {
	m.instance, m.rack = from.InstanceID, from.RackID
	m.clientID, m.clientHost = from.ClientID, from.ClientHost
	m.topics, m.regex = sortedSet(from.Topics), from.Regex
	m.rebalanceTimeoutMS, m.assignor, m.classic = from.RebalanceTimeoutMS, from.Assignor, from.Classic
}

// current is the member's KindConsumerCurrent.
func (m *member) current() *offsets.ConsumerCurrent {
	return &offsets.ConsumerCurrent{
		Epoch: m.epoch, PreviousEpoch: m.previousEpoch, State: int8(m.state),
		Assigned: m.assigned.list(), Revoking: m.revoking.list(),
	}
}

// reconcileTo takes over a KindConsumerCurrent.
func (m *member) reconcileTo(from *offsets.ConsumerCurrent) {
	m.epoch, m.previousEpoch = from.Epoch, from.PreviousEpoch
	m.state = MemberState(from.State)
	if m.state < Stable || m.state > UnreleasedPartitions {
		m.state = unknownState
	}
	m.assigned = readAssignment(from.Assigned, max(from.Epoch, 0))
	m.revoking = readAssignment(from.Revoking, max(from.Epoch, 0))
}

// list is the assignment as it is written: sorted.
func (a assignment) list() []offsets.TopicPartitions {
	list := make([]offsets.TopicPartitions, 0, len(a))
	for _, topic := range sortedIDs(a) {
		tp := offsets.TopicPartitions{TopicID: topic}
		tp.Partitions = slices.Sorted(maps.Keys(a[topic]))
		tp.Epochs = make([]int32, len(tp.Partitions))
		for i, p := range tp.Partitions {
			tp.Epochs[i] = a[topic][p]
		}
		list = append(list, tp)
	}
	return list
}

// readAssignment is the assignment that was written as list; partitions without an epoch get one.
func readAssignment(list []offsets.TopicPartitions, epoch int32) assignment {
	a := make(assignment, len(list))
	for i := range list {
		partitions := make(map[int32]int32, len(list[i].Partitions))
		for j, p := range list[i].Partitions {
			partitions[p] = epoch
			if list[i].Epochs != nil {
				partitions[p] = list[i].Epochs[j]
			}
		}
		if len(partitions) > 0 {
			a[list[i].TopicID] = partitions
		}
	}
	return a
}

// plain is the assignment without its epochs.
func (a assignment) plain() assign.Partitions {
	p := make(assign.Partitions, len(a))
	for topic, partitions := range a {
		p[topic] = slices.Sorted(maps.Keys(partitions))
	}
	return p
}

// at is plain partitions, all assigned in one epoch.
func at(p assign.Partitions, epoch int32) assignment {
	a := make(assignment, len(p))
	for topic, list := range p {
		if len(list) == 0 {
			continue
		}
		a[topic] = make(map[int32]int32, len(list))
		for _, n := range list {
			a[topic][n] = epoch
		}
	}
	return a
}

// has says whether a partition is in the assignment.
func (a assignment) has(topic uuid.UUID, partition int32) bool {
	_, ok := a[topic][partition]
	return ok
}

// put adds a partition to an assignment that is being built.
func (a assignment) put(topic uuid.UUID, partition, epoch int32) {
	if a[topic] == nil {
		a[topic] = make(map[int32]int32)
	}
	a[topic][partition] = epoch
}

func sortedIDs[V any](m map[uuid.UUID]V) []uuid.UUID {
	return slices.SortedFunc(maps.Keys(m), func(a, b uuid.UUID) int {
		return slices.Compare(a[:], b[:])
	})
}

// sortedSet is list sorted, each once.
func sortedSet(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}
