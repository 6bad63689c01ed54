package task

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/internal/fields"
)

// commitRecord is what one commit of a writer says: the value of the record that ends the commit
// in its changelog. All of it describes one instant.
type commitRecord struct {
	// Clean: the writer stopped after this commit and wrote nothing more.
	Clean bool
	// Fingerprint is that of the sub-topology whose rows and snapshot these are.
	Fingerprint string
	// Snapshot is the state of the Core, or the position of a source. Nil at the first start.
	Snapshot []byte
	// Seq is the last sequence number the writer gave out; used by SequencedProducer.
	Seq int64
	// From are the positions a first run was told to start at.
	From []position
	// Outputs are the partitions a SequencedProducer writes.
	Outputs []outPosition
	// Topics are the ids the input topics had when they were first read.
	Topics map[string]string
}

// position is an offset in a partition.
type position struct {
	client.TopicPartition
	Offset int64
}

// outPosition says what of the writer's records an output partition holds: none at or after Next,
// and before it none above Seq.
type outPosition struct {
	client.TopicPartition
	Next int64
	Seq  int64
}

// Layout (version 2), numbers as varints:
//
//	version byte | bits byte (0 clean, 1 snapshot present) | seq | len fingerprint | fingerprint
//	| len snapshot | snapshot
//	| n from | n * { len topic | topic | partition | offset }
//	| n outputs | n * { len topic | topic | partition | next | seq }
//	| n topics | n * { len topic | topic | len id | id }
const (
	commitVersion     = 2
	commitClean       = 1
	commitHasSnapshot = 2
)

func (c *commitRecord) encode() []byte {
	var bits byte
	if c.Clean {
		bits |= commitClean
	}
	if c.Snapshot != nil {
		bits |= commitHasSnapshot
	}
	b := make([]byte, 0, 64+len(c.Snapshot)+32*(len(c.From)+len(c.Outputs)))
	b = append(b, commitVersion, bits)
	b = binary.AppendVarint(b, c.Seq)
	b = appendText(b, c.Fingerprint)
	b = binary.AppendUvarint(b, uint64(len(c.Snapshot)))
	b = append(b, c.Snapshot...)
	b = binary.AppendUvarint(b, uint64(len(c.From)))
	for _, p := range c.From {
		b = binary.AppendVarint(appendPartition(b, p.TopicPartition), p.Offset)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Outputs)))
	for _, p := range c.Outputs {
		b = binary.AppendVarint(appendPartition(b, p.TopicPartition), p.Next)
		b = binary.AppendVarint(b, p.Seq)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Topics)))
	for _, topic := range slices.Sorted(maps.Keys(c.Topics)) {
		b = appendText(appendText(b, topic), c.Topics[topic])
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendPartition(b []byte, tp client.TopicPartition) []byte {
	return binary.AppendVarint(appendText(b, tp.Topic), int64(tp.Partition))
}

// decodeCommit reads a commit record; it shares no memory with b.
func decodeCommit(b []byte) (*commitRecord, error) {
	r := fields.Reader{Left: b}
	if v := r.Byte(); v != commitVersion && !r.Failed() {
		return nil, fmt.Errorf("%w: version %d, this build reads %d", ErrCommitRecord, v,
			commitVersion)
	}
	bits := r.Byte()
	c := &commitRecord{Clean: bits&commitClean != 0, Seq: r.Varint()}
	c.Fingerprint = string(r.Bytes())
	snapshot := r.Bytes()
	if bits&commitHasSnapshot != 0 {
		c.Snapshot = append([]byte{}, snapshot...)
	}
	for n := r.Count(3); n > 0; n-- {
		c.From = append(c.From, position{readPartition(&r), r.Varint()})
	}
	for n := r.Count(4); n > 0; n-- {
		c.Outputs = append(c.Outputs, outPosition{readPartition(&r), r.Varint(), r.Varint()})
	}
	for n := r.Count(2); n > 0; n-- {
		if c.Topics == nil {
			c.Topics = map[string]string{}
		}
		topic := string(r.Bytes())
		c.Topics[topic] = string(r.Bytes())
	}
	if !r.Whole() {
		return nil, fmt.Errorf("%w: %d bytes", ErrCommitRecord, len(b))
	}
	return c, nil
}

func readPartition(r *fields.Reader) client.TopicPartition {
	topic := string(r.Bytes())
	return client.TopicPartition{Topic: topic, Partition: int32(r.Varint())}
}
