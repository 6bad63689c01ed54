package offsets

import (
	"encoding/binary"
	"fmt"
)

// Kind tells the kinds of keys apart.
type Kind int

// The kinds of keys.
const (
	KindOther  Kind = iota // a record of a kind this package does not know: skip it
	KindOffset             // an OffsetCommitKey
	KindGroup              // a GroupMetadataKey

	// Those of consumer groups (KIP-848).
	KindConsumerGroup      // a ConsumerGroupMetadataKey
	KindConsumerPartitions // a ConsumerGroupPartitionMetadataKey: not written since Kafka 4.1
	KindConsumerMember     // a ConsumerGroupMemberMetadataKey
	KindConsumerTarget     // a ConsumerGroupTargetAssignmentMetadataKey
	KindConsumerAssignment // a ConsumerGroupTargetAssignmentMemberKey
	KindConsumerCurrent    // a ConsumerGroupCurrentMemberAssignmentKey
	KindConsumerRegex      // a ConsumerGroupRegularExpressionKey
)

// Key is a decoded key.
type Key struct {
	Kind      Kind
	Version   int16
	Group     string
	Topic     string // KindOffset only
	Partition int32  // KindOffset only
	Member    string // KindConsumerMember, KindConsumerAssignment and KindConsumerCurrent only
	Regex     string // KindConsumerRegex only
}

// Commit is one committed offset: the value of an OffsetCommitKey.
type Commit struct {
	// Offset is the next record to read.
	Offset int64
	// LeaderEpoch is the epoch of the last record read, -1 if the client did not say (KIP-320).
	LeaderEpoch int32
	// Metadata is the client's own text.
	Metadata string
	// CommitTimestamp is when it was committed, in ms.
	CommitTimestamp int64
	// ExpireTimestamp is when it expires, in ms, -1 if the broker's retention decides (KIP-211).
	ExpireTimestamp int64
	// TopicID is the id of the topic it is for, zero if the record does not say. A topic that was
	// deleted and made again has another.
	TopicID [16]byte
	// RecordOffset is where in the log its record is. It is no part of the value: who keeps commits
	// sets it.
	RecordOffset int64
}

// Member is one member in a GroupMetadata.
type Member struct {
	MemberID           string
	InstanceID         *string // nil for a dynamic member (KIP-345)
	ClientID           string
	ClientHost         string
	RebalanceTimeoutMS int32
	SessionTimeoutMS   int32
	Subscription       []byte // metadata for the group's protocol
	Assignment         []byte
}

// GroupMetadata is the state of one classic group: the value of a GroupMetadataKey.
type GroupMetadata struct {
	ProtocolType string
	Generation   int32
	Protocol     *string
	Leader       *string
	// CurrentStateTimestamp is when the group came into its state, in ms, -1 if not known.
	CurrentStateTimestamp int64
	Members               []Member
}

const (
	offsetKeyVersion = 1
	groupKeyVersion  = 2
	valueVersion     = 3
	// expiringValueVersion is the only one that has room for a client's own retention time.
	expiringValueVersion = 1
	flexibleVersion      = 4
	// tagTopicID is the tagged field of an OffsetCommitValue v4 that has the topic's id.
	tagTopicID = 0
)

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendNullableString(b []byte, s *string) []byte {
	if s == nil {
		return binary.BigEndian.AppendUint16(b, 0xffff)
	}
	return appendString(b, *s)
}

func appendBytes(b, p []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
	return append(b, p...)
}

// AppendOffsetKey appends an OffsetCommitKey v1.
func AppendOffsetKey(b []byte, group, topic string, partition int32) []byte {
	b = binary.BigEndian.AppendUint16(b, offsetKeyVersion)
	b = appendString(b, group)
	b = appendString(b, topic)
	return binary.BigEndian.AppendUint32(b, uint32(partition))
}

// AppendGroupKey appends a GroupMetadataKey v2.
func AppendGroupKey(b []byte, group string) []byte {
	b = binary.BigEndian.AppendUint16(b, groupKeyVersion)
	return appendString(b, group)
}

// AppendCommit appends an OffsetCommitValue: v1 if it has an expire time, v4 if it has a topic id,
// else v3.
func AppendCommit(b []byte, c Commit) []byte {
	if c.ExpireTimestamp < 0 && c.TopicID != [16]byte{} {
		return appendFlexibleCommit(b, c)
	}
	version := uint16(valueVersion)
	if c.ExpireTimestamp >= 0 {
		version = expiringValueVersion
	}
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset))
	if version == valueVersion {
		b = binary.BigEndian.AppendUint32(b, uint32(c.LeaderEpoch))
	}
	b = appendString(b, c.Metadata)
	b = binary.BigEndian.AppendUint64(b, uint64(c.CommitTimestamp))
	if version == expiringValueVersion {
		b = binary.BigEndian.AppendUint64(b, uint64(c.ExpireTimestamp))
	}
	return b
}

func appendFlexibleCommit(b []byte, c Commit) []byte {
	b = binary.BigEndian.AppendUint16(b, flexibleVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(c.LeaderEpoch))
	b = binary.AppendUvarint(b, uint64(len(c.Metadata))+1)
	b = append(b, c.Metadata...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.CommitTimestamp))
	b = append(b, 1, tagTopicID, byte(len(c.TopicID)))
	return append(b, c.TopicID[:]...)
}

// AppendGroup appends a GroupMetadataValue v3.
func AppendGroup(b []byte, g *GroupMetadata) []byte {
	b = binary.BigEndian.AppendUint16(b, valueVersion)
	b = appendString(b, g.ProtocolType)
	b = binary.BigEndian.AppendUint32(b, uint32(g.Generation))
	b = appendNullableString(b, g.Protocol)
	b = appendNullableString(b, g.Leader)
	b = binary.BigEndian.AppendUint64(b, uint64(g.CurrentStateTimestamp))
	b = binary.BigEndian.AppendUint32(b, uint32(len(g.Members)))
	for i := range g.Members {
		m := &g.Members[i]
		b = appendString(b, m.MemberID)
		b = appendNullableString(b, m.InstanceID)
		b = appendString(b, m.ClientID)
		b = appendString(b, m.ClientHost)
		b = binary.BigEndian.AppendUint32(b, uint32(m.RebalanceTimeoutMS))
		b = binary.BigEndian.AppendUint32(b, uint32(m.SessionTimeoutMS))
		b = appendBytes(b, m.Subscription)
		b = appendBytes(b, m.Assignment)
	}
	return b
}

// ReadKey decodes a key. A key of an unknown version is KindOther and no error.
func ReadKey(b []byte) (Key, error) {
	r := reader{b: b}
	k := Key{Version: r.int16()}
	switch k.Version {
	case 0, offsetKeyVersion:
		k.Kind = KindOffset
		k.Group = r.string(false)
		k.Topic = r.string(false)
		k.Partition = r.int32()
	case groupKeyVersion:
		k.Kind = KindGroup
		k.Group = r.string(false)
	default:
		readConsumerKey(&r, &k)
	}
	if r.err != nil {
		return Key{}, fmt.Errorf("read key version %d: %w", k.Version, r.err)
	}
	return k, nil
}

// ReadCommit decodes an OffsetCommitValue.
func ReadCommit(b []byte) (Commit, error) {
	r := reader{b: b}
	version := r.int16()
	if r.err == nil && (version < 0 || version > flexibleVersion) {
		return Commit{}, fmt.Errorf("%w: OffsetCommitValue v%d", ErrUnknownVersion, version)
	}
	flexible := version >= flexibleVersion
	c := Commit{LeaderEpoch: -1, ExpireTimestamp: -1, Offset: r.int64()}
	if version >= valueVersion {
		c.LeaderEpoch = r.int32()
	}
	c.Metadata = r.string(flexible)
	c.CommitTimestamp = r.int64()
	if version == expiringValueVersion {
		c.ExpireTimestamp = r.int64()
	}
	if flexible {
		r.tags(func(tag int, value []byte) {
			if tag == tagTopicID && len(value) == len(c.TopicID) {
				c.TopicID = [16]byte(value)
			}
		})
	}
	if r.err != nil {
		return Commit{}, fmt.Errorf("read OffsetCommitValue v%d: %w", version, r.err)
	}
	return c, nil
}

// leastMember is the least a member takes in any version: six one-byte lengths, one int32.
const leastMember = 9

// ReadGroup decodes a GroupMetadataValue.
func ReadGroup(b []byte) (*GroupMetadata, error) {
	r := reader{b: b}
	version := r.int16()
	if r.err == nil && (version < 0 || version > flexibleVersion) {
		return nil, fmt.Errorf("%w: GroupMetadataValue v%d", ErrUnknownVersion, version)
	}
	flexible := version >= flexibleVersion
	g := &GroupMetadata{CurrentStateTimestamp: -1, ProtocolType: r.string(flexible)}
	g.Generation = r.int32()
	g.Protocol = r.nullableString(flexible)
	g.Leader = r.nullableString(flexible)
	if version >= 2 {
		g.CurrentStateTimestamp = r.int64()
	}
	n := r.count(flexible, leastMember)
	g.Members = make([]Member, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		g.Members = append(g.Members, readMember(&r, version))
	}
	if flexible {
		r.tags(nil)
	}
	if r.err != nil {
		return nil, fmt.Errorf("read GroupMetadataValue v%d: %w", version, r.err)
	}
	return g, nil
}

func readMember(r *reader, version int16) Member {
	flexible := version >= flexibleVersion
	m := Member{MemberID: r.string(flexible), RebalanceTimeoutMS: -1}
	if version >= 3 {
		m.InstanceID = r.nullableString(flexible)
	}
	m.ClientID = r.string(flexible)
	m.ClientHost = r.string(flexible)
	if version >= 1 {
		m.RebalanceTimeoutMS = r.int32()
	}
	m.SessionTimeoutMS = r.int32()
	m.Subscription = r.bytes(flexible)
	m.Assignment = r.bytes(flexible)
	if m.RebalanceTimeoutMS < 0 {
		m.RebalanceTimeoutMS = m.SessionTimeoutMS
	}
	if flexible {
		r.tags(nil)
	}
	return m
}
