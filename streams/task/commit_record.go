package task

import (
	"encoding/binary"
	"fmt"

	"github.com/millstream-io/millstream/streams/client"
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
	// Outputs are the partitions the writer writes.
	Outputs []outPosition
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

// Layout (version 1), numbers as varints:
//
//	version byte | bits byte (0 clean, 1 snapshot present) | seq | len fingerprint | fingerprint
//	| len snapshot | snapshot
//	| n from | n * { len topic | topic | partition | offset }
//	| n outputs | n * { len topic | topic | partition | next | seq }
const (
	commitVersion     = 1
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
	b = binary.AppendUvarint(b, uint64(len(c.Fingerprint)))
	b = append(b, c.Fingerprint...)
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
	return b
}

func appendPartition(b []byte, tp client.TopicPartition) []byte {
	b = binary.AppendUvarint(b, uint64(len(tp.Topic)))
	b = append(b, tp.Topic...)
	return binary.AppendVarint(b, int64(tp.Partition))
}

// decodeCommit reads a commit record; it shares no memory with b.
func decodeCommit(b []byte) (*commitRecord, error) {
	d := decoder{b: b}
	if v := d.byte(); v != commitVersion && !d.bad {
		return nil, fmt.Errorf("%w: version %d, this build reads %d", ErrCommitRecord, v,
			commitVersion)
	}
	bits := d.byte()
	c := &commitRecord{Clean: bits&commitClean != 0, Seq: d.varint()}
	c.Fingerprint = string(d.bytes())
	snapshot := d.bytes()
	if bits&commitHasSnapshot != 0 {
		c.Snapshot = append([]byte{}, snapshot...)
	}
	for n := d.count(3); n > 0; n-- {
		c.From = append(c.From, position{d.partition(), d.varint()})
	}
	for n := d.count(4); n > 0; n-- {
		c.Outputs = append(c.Outputs, outPosition{d.partition(), d.varint(), d.varint()})
	}
	if d.bad || len(d.b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrCommitRecord, len(b))
	}
	return c, nil
}

// decoder reads the fields of a record; after a short one bad is true and all fields are zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	size, n := binary.Uvarint(d.b)
	if n <= 0 || size > uint64(len(d.b)-n) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[n : n+int(size)]
	d.b = d.b[n+int(size):]
	return v
}

// count reads the length of a list whose items have at least size bytes each.
func (d *decoder) count(size int) int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(len(d.b)/size) {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

func (d *decoder) partition() client.TopicPartition {
	topic := string(d.bytes())
	return client.TopicPartition{Topic: topic, Partition: int32(d.varint())}
}
