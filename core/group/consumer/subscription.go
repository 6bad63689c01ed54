package consumer

import (
	"encoding/binary"
	"slices"

	"github.com/millstream-io/millstream/core/group/assign"
)

// highestProtocol is the newest version of the consumers' own protocol that is known. Later ones
// only append.
const highestProtocol = 3

// subscription is what a consumer of the classic protocol says of itself
// (ConsumerProtocolSubscription):
//
//	version int16, topics array of string, userData bytes
//	v1  + owned array of {topic string, partitions array of int32}
//	v2  + generation int32
//	v3  + rack nullable string
//
// Strings have an int16, bytes and arrays an int32 length.
type subscription struct {
	version int16
	topics  []string
	owned   []topicPartitions
	rack    *string
}

type topicPartitions struct {
	topic      string
	partitions []int32
}

// protocolReader takes fields from the front of b; ok turns false at the first fault.
type protocolReader struct {
	b  []byte
	ok bool
}

func (r *protocolReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.ok = nil, false
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *protocolReader) int16() int16 {
	if p := r.take(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (r *protocolReader) int32() int32 {
	if p := r.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

func (r *protocolReader) string() string { return string(r.take(int(r.int16()))) }

// bytes reads nullable bytes.
func (r *protocolReader) bytes() []byte {
	if n := r.int32(); n >= 0 {
		return r.take(int(n))
	}
	return nil
}

// array calls fn for each element; null is empty.
func (r *protocolReader) array(fn func()) {
	for n := r.int32(); n > 0 && r.ok; n-- {
		fn()
	}
}

func (r *protocolReader) topicPartitions() (list []topicPartitions) {
	r.array(func() {
		tp := topicPartitions{topic: r.string()}
		r.array(func() { tp.partitions = append(tp.partitions, r.int32()) })
		list = append(list, tp)
	})
	return list
}

func readSubscription(b []byte) (s subscription, ok bool) {
	r := protocolReader{b: b, ok: true}
	s.version = r.int16()
	r.array(func() { s.topics = append(s.topics, r.string()) })
	r.bytes()
	if s.version >= 1 {
		s.owned = r.topicPartitions()
	}
	if s.version >= 2 {
		r.int32()
	}
	if s.version >= 3 {
		if n := r.int16(); n >= 0 {
			s.rack = new(string(r.take(int(n))))
		}
	}
	return s, r.ok && s.version >= 0
}

// readClassicAssignment reads what a leader of the classic protocol gave to a member
// (ConsumerProtocolAssignment):
//
//	version int16, partitions array of {topic string, partitions array of int32}, userData bytes
func readClassicAssignment(b []byte) (list []topicPartitions, userData []byte, ok bool) {
	r := protocolReader{b: b, ok: true}
	version := r.int16()
	list = r.topicPartitions()
	userData = r.bytes()
	return list, userData, r.ok && version >= 0
}

// appendClassicAssignment is a ConsumerProtocolAssignment of what is assigned, without user data.
// Topics that are gone are left out.
func appendClassicAssignment(topics Topics, p assign.Partitions, version int16) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(min(version, highestProtocol)))
	var named []topicPartitions
	for _, id := range sortedIDs(p) {
		if t, ok := topics.ByID(id); ok {
			named = append(named, topicPartitions{t.Name, p[id]})
		}
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(named)))
	for _, tp := range named {
		b = binary.BigEndian.AppendUint16(b, uint16(len(tp.topic)))
		b = append(b, tp.topic...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(tp.partitions)))
		for _, n := range tp.partitions {
			b = binary.BigEndian.AppendUint32(b, uint32(n))
		}
	}
	return binary.BigEndian.AppendUint32(b, 0xffffffff) // no user data
}

// byID names topics by id; those that are gone are left out.
func byID(topics Topics, list []topicPartitions) assign.Partitions {
	p := make(assign.Partitions)
	for _, tp := range list {
		if t, ok := topics.ByName(tp.topic); ok && len(tp.partitions) > 0 {
			p[t.ID] = slices.Compact(slices.Sorted(slices.Values(tp.partitions)))
		}
	}
	return p
}
