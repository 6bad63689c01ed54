package txn

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

const (
	keyVersion      = 0
	plainVersion    = 0
	flexibleVersion = 1
)

// The tags of a flexible value.
const (
	tagPreviousProducerID = 0
	tagNextProducerID     = 1
	tagClientVersion      = 2
	tagNextProducerEpoch  = 3
)

// AppendKey appends the key of a transactional id.
func AppendKey(b []byte, id string) []byte {
	b = binary.BigEndian.AppendUint16(b, keyVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(len(id)))
	return append(b, id...)
}

// ReadKey reads the transactional id of a key.
func ReadKey(b []byte) (string, error) {
	r := reader{b: b}
	if v := r.int16(); !r.failed && v != keyVersion {
		return "", fmt.Errorf("%w: key version %d", ErrUnknownVersion, v)
	}
	id := r.string(false)
	if r.failed || len(r.b) > 0 {
		return "", fmt.Errorf("%w: key of %d bytes", ErrMalformedRecord, len(b))
	}
	return id, nil
}

// AppendValue appends md in version 1, or without flexible in version 0, which lacks what is in the
// tags.
func AppendValue(b []byte, md *Metadata, flexible bool) []byte {
	version := uint16(plainVersion)
	if flexible {
		version = flexibleVersion
	}
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(md.ProducerID))
	b = binary.BigEndian.AppendUint16(b, uint16(md.ProducerEpoch))
	b = binary.BigEndian.AppendUint32(b, uint32(md.TimeoutMS))
	b = append(b, byte(md.State))
	b = appendPartitions(b, md, flexible)
	b = binary.BigEndian.AppendUint64(b, uint64(md.LastUpdateMS))
	b = binary.BigEndian.AppendUint64(b, uint64(md.StartMS))
	if !flexible {
		return b
	}
	return appendTags(b, md)
}

// appendLength appends the length of an array, -1 for null.
func appendLength(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// appendPartitions appends the partitions, grouped by topic.
func appendPartitions(b []byte, md *Metadata, flexible bool) []byte {
	if md.State == Empty {
		return appendLength(b, -1, flexible)
	}
	topics := 0
	for i := range md.Partitions {
		if i == 0 || md.Partitions[i-1].Topic != md.Partitions[i].Topic {
			topics++
		}
	}
	b = appendLength(b, topics, flexible)
	for rest := md.Partitions; len(rest) > 0; {
		topic, n := rest[0].Topic, 0
		for n < len(rest) && rest[n].Topic == topic {
			n++
		}
		if flexible {
			b = binary.AppendUvarint(b, uint64(len(topic))+1)
		} else {
			b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
		}
		b = append(b, topic...)
		b = appendLength(b, n, flexible)
		for _, p := range rest[:n] {
			b = binary.BigEndian.AppendUint32(b, uint32(p.Partition))
		}
		if flexible {
			b = append(b, 0) // no tags
		}
		rest = rest[n:]
	}
	return b
}

func appendTags(b []byte, md *Metadata) []byte {
	at := len(b)
	b = append(b, 0)
	tag := func(number, size byte) {
		b[at]++
		b = append(b, number, size)
	}
	if md.PreviousProducerID != NoProducerID {
		tag(tagPreviousProducerID, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(md.PreviousProducerID))
	}
	if md.NextProducerID != NoProducerID {
		tag(tagNextProducerID, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(md.NextProducerID))
	}
	if md.ClientVersion != 0 {
		tag(tagClientVersion, 2)
		b = binary.BigEndian.AppendUint16(b, uint16(md.ClientVersion))
	}
	if md.NextProducerEpoch != NoProducerEpoch {
		tag(tagNextProducerEpoch, 2)
		b = binary.BigEndian.AppendUint16(b, uint16(md.NextProducerEpoch))
	}
	return b
}

// ReadValue reads a value of either version. Unknown tags are skipped.
func ReadValue(b []byte) (Metadata, error) {
	r := reader{b: b}
	version := r.int16()
	if !r.failed && version != plainVersion && version != flexibleVersion {
		return Metadata{}, fmt.Errorf("%w: value version %d", ErrUnknownVersion, version)
	}
	flexible := version == flexibleVersion
	md := Metadata{
		PreviousProducerID: NoProducerID, NextProducerID: NoProducerID,
		NextProducerEpoch: NoProducerEpoch,
	}
	md.ProducerID = r.int64()
	md.ProducerEpoch = r.int16()
	md.TimeoutMS = r.int32()
	md.State = State(r.int8())
	md.Partitions = r.partitions(flexible)
	md.LastUpdateMS = r.int64()
	md.StartMS = r.int64()
	if flexible {
		r.tags(func(tag uint64, t *reader) {
			switch tag {
			case tagPreviousProducerID:
				md.PreviousProducerID = t.int64()
			case tagNextProducerID:
				md.NextProducerID = t.int64()
			case tagClientVersion:
				md.ClientVersion = t.int16()
			case tagNextProducerEpoch:
				md.NextProducerEpoch = t.int16()
			}
		})
	}
	if r.failed || len(r.b) > 0 || md.State < Empty || md.State > PrepareEpochFence {
		return Metadata{}, fmt.Errorf("%w: value of %d bytes", ErrMalformedRecord, len(b))
	}
	return md, nil
}

// reader reads big-endian fields; a short input makes it fail for good.
type reader struct {
	b      []byte
	failed bool
}

// take returns the next n bytes, or nil.
func (r *reader) take(n int) []byte {
	if r.failed || n < 0 || n > len(r.b) {
		r.failed = true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.failed || n <= 0 || v > math.MaxInt32 {
		r.failed = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// length reads the length of an array or string, -1 for null.
func (r *reader) length(flexible, array bool) int {
	switch {
	case flexible:
		return int(r.uvarint()) - 1
	case array:
		return int(r.int32())
	default:
		return int(r.int16())
	}
}

func (r *reader) string(flexible bool) string {
	return string(r.take(r.length(flexible, false)))
}

func (r *reader) partitions(flexible bool) []TopicPartition {
	var all []TopicPartition
	topics := r.length(flexible, true)
	if topics < -1 {
		r.failed = true
	}
	for range topics {
		topic := r.string(flexible)
		ids := r.take(4 * r.length(flexible, true))
		for ; len(ids) >= 4; ids = ids[4:] {
			all = append(all, TopicPartition{topic, int32(binary.BigEndian.Uint32(ids))})
		}
		if flexible {
			r.tags(func(uint64, *reader) {})
		}
		if r.failed {
			return nil
		}
	}
	slices.SortFunc(all, comparePartitions)
	return slices.Compact(all)
}

// tags calls fn for each tagged field.
func (r *reader) tags(fn func(tag uint64, field *reader)) {
	for range r.uvarint() {
		tag := r.uvarint()
		field := reader{b: r.take(int(r.uvarint()))}
		if r.failed {
			return
		}
		fn(tag, &field)
		r.failed = field.failed
	}
}
