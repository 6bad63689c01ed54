package consumer

import (
	"encoding/binary"
	"iter"
	"slices"
	"unicode/utf16"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"
)

// Topics is a snapshot of the cluster's topics; it does not change.
type Topics interface {
	// Version rises with every change.
	Version() int64
	// ByName and ByID find a topic.
	ByName(name string) (Topic, bool)
	ByID(id uuid.UUID) (Topic, bool)
	// Names lists all topics.
	Names() iter.Seq[string]
}

// Topic is one topic.
type Topic struct {
	Name       string
	ID         uuid.UUID
	Partitions int32
	// Racks lists the racks of a partition's replicas, each as often as there are replicas in it.
	Racks func(partition int32) []string
}

// hash is Kafka's hash of a topic: it changes with what members have to be told. The same bytes go
// into the same function (XXH3 of 64 bits), so that a group that Kafka wrote is not rebalanced.
//
//	int8 0, id 16 bytes as two int64, name, partition count int32,
//	for each partition: its number int32, for each of its racks, sorted: length int32, rack
//
// Integers are little-endian; a string is its UTF-16 units, then their number as int32.
func (t *Topic) hash() uint64 {
	b := []byte{0}
	for _, half := range [][]byte{t.ID[:8], t.ID[8:]} {
		b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(half))
	}
	b = hashString(b, t.Name)
	b = binary.LittleEndian.AppendUint32(b, uint32(t.Partitions))
	for p := range t.Partitions {
		b = binary.LittleEndian.AppendUint32(b, uint32(p))
		if t.Racks == nil {
			continue
		}
		for _, rack := range slices.Sorted(slices.Values(t.Racks(p))) {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(utf16.Encode([]rune(rack)))))
			b = hashString(b, rack)
		}
	}
	return xxh3.Hash(b)
}

func hashString(b []byte, s string) []byte {
	units := utf16.Encode([]rune(s))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(len(units)))
}

// hashTopics is Kafka's hash of those of the named topics that exist, 0 if none does. Names are
// sorted, each once.
func hashTopics(topics Topics, names []string) uint64 {
	var b []byte
	for _, name := range names {
		if t, ok := topics.ByName(name); ok {
			b = binary.LittleEndian.AppendUint64(b, t.hash())
		}
	}
	if len(b) == 0 {
		return 0
	}
	return xxh3.Hash(b)
}
