package offsets

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// The record types of consumer groups (KIP-848), which are the versions of their keys.
const (
	consumerGroupKey      = 3
	consumerPartitionsKey = 4
	consumerMemberKey     = 5
	consumerTargetKey     = 6
	consumerAssignmentKey = 7
	consumerCurrentKey    = 8
	consumerRegexKey      = 16
)

// ConsumerGroup is the value of a KindConsumerGroup: the group itself.
type ConsumerGroup struct {
	Epoch int32
	// MetadataHash is that of all topics the group subscribes to; it changes with their partitions
	// and racks.
	MetadataHash uint64
}

// ConsumerMember is the value of a KindConsumerMember: what a member says of itself.
type ConsumerMember struct {
	InstanceID         *string
	RackID             *string
	ClientID           string
	ClientHost         string
	Topics             []string // subscribed by name, sorted
	Regex              *string  // subscribed by regular expression
	RebalanceTimeoutMS int32    // -1 if not known
	Assignor           *string
	// Classic is set while the member uses the classic protocol.
	Classic *ConsumerClassic
}

// ConsumerClassic is what is kept of a member that uses the classic protocol.
type ConsumerClassic struct {
	SessionTimeoutMS int32
	Protocols        []ConsumerClassicProtocol
}

// ConsumerClassicProtocol is one of its protocols.
type ConsumerClassicProtocol struct {
	Name     string
	Metadata []byte
}

// ConsumerTarget is the value of a KindConsumerTarget: of which group epoch the target assignment
// is, and when it was computed, in ms, 0 if that does not matter.
type ConsumerTarget struct {
	Epoch     int32
	Timestamp int64
}

// TopicPartitions are partitions of one topic. Epochs are the assignment epochs of the partitions
// (KIP-1251), nil if they are not known.
type TopicPartitions struct {
	TopicID    uuid.UUID
	Partitions []int32
	Epochs     []int32
}

// ConsumerCurrent is the value of a KindConsumerCurrent: how far a member is with its assignment.
type ConsumerCurrent struct {
	Epoch, PreviousEpoch int32
	State                int8
	Assigned, Revoking   []TopicPartitions
}

// ConsumerRegex is the value of a KindConsumerRegex: the topics that an expression matched.
type ConsumerRegex struct {
	Topics    []string // sorted
	Version   int64    // of the metadata it was resolved with
	Timestamp int64    // when, in ms
}

// AppendConsumerKey appends the key of one of the records of consumer groups. k.Member or k.Regex
// belong to it if its kind has them.
func AppendConsumerKey(b []byte, k Key) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(consumerVersions[k.Kind]))
	b = appendString(b, k.Group)
	switch k.Kind {
	case KindConsumerMember, KindConsumerAssignment, KindConsumerCurrent:
		b = appendString(b, k.Member)
	case KindConsumerRegex:
		b = appendString(b, k.Regex)
	}
	return b
}

var consumerVersions = map[Kind]int16{
	KindConsumerGroup: consumerGroupKey, KindConsumerPartitions: consumerPartitionsKey,
	KindConsumerMember: consumerMemberKey, KindConsumerTarget: consumerTargetKey,
	KindConsumerAssignment: consumerAssignmentKey, KindConsumerCurrent: consumerCurrentKey,
	KindConsumerRegex: consumerRegexKey,
}

// readConsumerKey decodes the rest of a key whose version is read.
func readConsumerKey(r *reader, k *Key) {
	for kind, version := range consumerVersions {
		if version == k.Version {
			k.Kind = kind
		}
	}
	if k.Kind == KindOther {
		return
	}
	k.Group = r.string(false)
	switch k.Kind {
	case KindConsumerMember, KindConsumerAssignment, KindConsumerCurrent:
		k.Member = r.string(false)
	case KindConsumerRegex:
		k.Regex = r.string(false)
	}
}

func appendCompact[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}

func appendCompactNullable(b []byte, s *string) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendCompact(b, *s)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list))+1)
	for _, s := range list {
		b = appendCompact(b, s)
	}
	return b
}

func appendInts(b []byte, list []int32) []byte {
	b = binary.AppendUvarint(b, uint64(len(list))+1)
	for _, n := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// appendTag appends one tagged field.
func appendTag(b []byte, tag uint64, value []byte) []byte {
	b = binary.AppendUvarint(b, tag)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// version0 begins a value.
func version0() []byte { return []byte{0, 0} }

// Append returns a ConsumerGroupMetadataValue.
func (g *ConsumerGroup) Append() []byte {
	b := binary.BigEndian.AppendUint32(version0(), uint32(g.Epoch))
	return appendTime(b, int64(g.MetadataHash))
}

// appendTime appends the tagged fields of a value whose only one is an int64 that is 0 by default.
func appendTime(b []byte, n int64) []byte {
	if n == 0 {
		return append(b, 0)
	}
	return appendTag(append(b, 1), 0, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// Append returns a ConsumerGroupTargetAssignmentMetadataValue.
func (t *ConsumerTarget) Append() []byte {
	b := binary.BigEndian.AppendUint32(version0(), uint32(t.Epoch))
	return appendTime(b, t.Timestamp)
}

// Append returns a ConsumerGroupMemberMetadataValue.
func (m *ConsumerMember) Append() []byte {
	b := appendCompactNullable(version0(), m.InstanceID)
	b = appendCompactNullable(b, m.RackID)
	b = appendCompact(b, m.ClientID)
	b = appendCompact(b, m.ClientHost)
	b = appendStrings(b, m.Topics)
	b = appendCompactNullable(b, m.Regex)
	b = binary.BigEndian.AppendUint32(b, uint32(m.RebalanceTimeoutMS))
	b = appendCompactNullable(b, m.Assignor)
	if m.Classic == nil {
		return appendTag(append(b, 1), 0, []byte{0}) // null, which Kafka writes too
	}
	c := []byte{1} // not null
	c = binary.BigEndian.AppendUint32(c, uint32(m.Classic.SessionTimeoutMS))
	c = binary.AppendUvarint(c, uint64(len(m.Classic.Protocols))+1)
	for _, p := range m.Classic.Protocols {
		c = appendCompact(c, p.Name)
		c = append(appendCompact(c, p.Metadata), 0)
	}
	return appendTag(append(b, 1), 0, append(c, 0))
}

// AppendConsumerAssignment returns a ConsumerGroupTargetAssignmentMemberValue.
func AppendConsumerAssignment(list []TopicPartitions) []byte {
	b := binary.AppendUvarint(version0(), uint64(len(list))+1)
	for i := range list {
		b = append(b, list[i].TopicID[:]...)
		b = append(appendInts(b, list[i].Partitions), 0)
	}
	return append(b, 0)
}

// Append returns a ConsumerGroupCurrentMemberAssignmentValue.
func (c *ConsumerCurrent) Append() []byte {
	b := binary.BigEndian.AppendUint32(version0(), uint32(c.Epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(c.PreviousEpoch))
	b = append(b, byte(c.State))
	for _, list := range [][]TopicPartitions{c.Assigned, c.Revoking} {
		b = binary.AppendUvarint(b, uint64(len(list))+1)
		for i := range list {
			b = append(b, list[i].TopicID[:]...)
			b = appendInts(b, list[i].Partitions)
			if list[i].Epochs == nil {
				b = append(b, 0)
				continue
			}
			b = appendTag(append(b, 1), 0, appendInts(nil, list[i].Epochs))
		}
	}
	return append(b, 0)
}

// Append returns a ConsumerGroupRegularExpressionValue.
func (x *ConsumerRegex) Append() []byte {
	b := appendStrings(version0(), x.Topics)
	b = binary.BigEndian.AppendUint64(b, uint64(x.Version))
	b = binary.BigEndian.AppendUint64(b, uint64(x.Timestamp))
	return append(b, 0)
}

// readValue decodes a value of a consumer group's record, whose version must be 0.
func readValue(b []byte, name string, fn func(*reader)) error {
	r := reader{b: b}
	version := r.int16()
	if r.err == nil && version != 0 {
		return fmt.Errorf("%w: %s v%d", ErrUnknownVersion, name, version)
	}
	fn(&r)
	if r.err != nil {
		return fmt.Errorf("read %s v%d: %w", name, version, r.err)
	}
	return nil
}

// readTag0 reads tagged fields and hands the bytes of tag 0 to fn.
func (r *reader) readTag0(fn func(*reader)) {
	r.tags(func(tag int, value []byte) {
		if tag != 0 {
			return
		}
		inner := reader{b: value}
		fn(&inner)
		if inner.err != nil {
			r.fail("tag 0")
		}
	})
}

// ReadConsumerGroup decodes a ConsumerGroupMetadataValue.
func ReadConsumerGroup(b []byte) (g ConsumerGroup, err error) {
	err = readValue(b, "ConsumerGroupMetadataValue", func(r *reader) {
		g.Epoch = r.int32()
		r.readTag0(func(r *reader) { g.MetadataHash = uint64(r.int64()) })
	})
	return g, err
}

// ReadConsumerTarget decodes a ConsumerGroupTargetAssignmentMetadataValue.
func ReadConsumerTarget(b []byte) (t ConsumerTarget, err error) {
	err = readValue(b, "ConsumerGroupTargetAssignmentMetadataValue", func(r *reader) {
		t.Epoch = r.int32()
		r.readTag0(func(r *reader) { t.Timestamp = r.int64() })
	})
	return t, err
}

func (r *reader) strings() []string {
	n := r.count(true, 1)
	list := make([]string, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		list = append(list, r.string(true))
	}
	return list
}

func (r *reader) ints() []int32 {
	n := r.count(true, 4)
	list := make([]int32, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		list = append(list, r.int32())
	}
	return list
}

// ReadConsumerMember decodes a ConsumerGroupMemberMetadataValue.
func ReadConsumerMember(b []byte) (m ConsumerMember, err error) {
	err = readValue(b, "ConsumerGroupMemberMetadataValue", func(r *reader) {
		m.InstanceID = r.nullableString(true)
		m.RackID = r.nullableString(true)
		m.ClientID = r.string(true)
		m.ClientHost = r.string(true)
		m.Topics = r.strings()
		m.Regex = r.nullableString(true)
		m.RebalanceTimeoutMS = r.int32()
		m.Assignor = r.nullableString(true)
		r.readTag0(func(r *reader) { m.Classic = readClassic(r) })
	})
	return m, err
}

func readClassic(r *reader) *ConsumerClassic {
	if p := r.take(1, "presence"); len(p) == 0 || p[0] != 1 {
		return nil
	}
	c := &ConsumerClassic{SessionTimeoutMS: r.int32()}
	for n := r.count(true, 3); n > 0 && r.err == nil; n-- {
		p := ConsumerClassicProtocol{Name: r.string(true), Metadata: r.bytes(true)}
		r.tags(nil)
		c.Protocols = append(c.Protocols, p)
	}
	r.tags(nil)
	return c
}

// topicPartitions reads the lists of partitions in targets and current assignments.
func (r *reader) topicPartitions() []TopicPartitions {
	n := r.count(true, 18)
	list := make([]TopicPartitions, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		var tp TopicPartitions
		copy(tp.TopicID[:], r.take(16, "uuid"))
		tp.Partitions = r.ints()
		r.readTag0(func(r *reader) { tp.Epochs = r.ints() })
		if len(tp.Epochs) != len(tp.Partitions) {
			tp.Epochs = nil
		}
		list = append(list, tp)
	}
	return list
}

// ReadConsumerAssignment decodes a ConsumerGroupTargetAssignmentMemberValue.
func ReadConsumerAssignment(b []byte) (list []TopicPartitions, err error) {
	err = readValue(b, "ConsumerGroupTargetAssignmentMemberValue", func(r *reader) {
		list = r.topicPartitions()
		r.tags(nil)
	})
	return list, err
}

// ReadConsumerCurrent decodes a ConsumerGroupCurrentMemberAssignmentValue.
func ReadConsumerCurrent(b []byte) (c ConsumerCurrent, err error) {
	err = readValue(b, "ConsumerGroupCurrentMemberAssignmentValue", func(r *reader) {
		c.Epoch, c.PreviousEpoch = r.int32(), r.int32()
		if p := r.take(1, "state"); p != nil {
			c.State = int8(p[0])
		}
		c.Assigned = r.topicPartitions()
		c.Revoking = r.topicPartitions()
		r.tags(nil)
	})
	return c, err
}

// ReadConsumerRegex decodes a ConsumerGroupRegularExpressionValue.
func ReadConsumerRegex(b []byte) (x ConsumerRegex, err error) {
	err = readValue(b, "ConsumerGroupRegularExpressionValue", func(r *reader) {
		x.Topics = slices.Clip(r.strings())
		x.Version, x.Timestamp = r.int64(), r.int64()
		r.tags(nil)
	})
	return x, err
}
