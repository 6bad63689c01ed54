package protocol

import (
	"encoding/binary"
	"fmt"
)

// ProduceRequest is a decoded Produce body, versions 3 to 13. It is meant to be reused: Decode
// overwrites it and keeps its slices. All byte slices alias the frame.
type ProduceRequest struct {
	// TransactionalID is nil outside of transactions.
	TransactionalID []byte
	// Acks is -1 (all in-sync replicas), 1 (leader) or 0 (no answer).
	Acks int16
	// TimeoutMillis bounds the wait for acks=-1.
	TimeoutMillis int32
	// Topics are in the order of the request.
	Topics []ProduceTopic
	// Partitions of all topics, one after the other; a topic holds its range.
	Partitions []ProducePartition
}

// ProduceTopic is one topic of a ProduceRequest.
type ProduceTopic struct {
	// Name is the topic's name up to version 12, nil from 13 on.
	Name []byte
	// ID is the topic's id from version 13 on.
	ID [16]byte
	// First and End are the topic's range [First, End) in ProduceRequest.Partitions.
	First, End int
}

// ProducePartition is one partition of a ProduceRequest.
type ProducePartition struct {
	// Index is the number of the partition in its topic.
	Index int32
	// Records is a run of record batches, nil when null.
	Records []byte
}

// reusableElements bounds the capacity that a reused request keeps between two uses.
const reusableElements = 4096

// Decode reads body as a Produce request of the given version.
func (p *ProduceRequest) Decode(version int16, body []byte) error {
	flexible := version >= 9
	r := Reader{Src: body}
	p.Reset()
	p.TransactionalID = r.NullableString(flexible)
	p.Acks = r.Int16()
	p.TimeoutMillis = r.Int32()
	// Smallest topic: name or id, partition count (1 byte when compact), tags.
	topicMin := 2 + 4
	if flexible {
		topicMin = 1 + 1 + 1
	}
	if version >= 13 {
		topicMin = 16 + 1 + 1
	}
	for range r.ArrayLen(flexible, topicMin) {
		p.decodeTopic(&r, version, flexible)
		if !r.Ok() {
			break
		}
	}
	if flexible {
		r.SkipTags()
	}
	if !r.Ok() {
		return fmt.Errorf("decode Produce v%d: %w", version, ErrMalformed)
	}
	return nil
}

// decodeTopic appends the next topic and its partitions.
func (p *ProduceRequest) decodeTopic(r *Reader, version int16, flexible bool) {
	t := ProduceTopic{First: len(p.Partitions)}
	if version >= 13 {
		t.ID = r.UUID()
	} else {
		t.Name = r.String(flexible)
	}
	// Smallest partition: index, records length, tags when flexible.
	partitionMin := 4 + 4
	if flexible {
		partitionMin = 4 + 1 + 1
	}
	for range r.ArrayLen(flexible, partitionMin) {
		part := ProducePartition{Index: r.Int32(), Records: r.NullableBytes(flexible)}
		if flexible {
			r.SkipTags()
		}
		if !r.Ok() {
			return
		}
		p.Partitions = append(p.Partitions, part)
	}
	if flexible {
		r.SkipTags()
	}
	t.End = len(p.Partitions)
	p.Topics = append(p.Topics, t)
}

// Reset empties p, keeping its slices unless they have grown beyond what is worth keeping. The
// elements are cleared so that a pooled request holds no frame alive.
func (p *ProduceRequest) Reset() {
	topics, parts := p.Topics, p.Partitions
	clear(topics)
	clear(parts)
	*p = ProduceRequest{}
	if cap(topics) <= reusableElements && cap(parts) <= reusableElements {
		p.Topics, p.Partitions = topics[:0], parts[:0]
	}
}

// ProduceResult is what became of one partition of a Produce request.
type ProduceResult struct {
	// Index is the number of the partition in its topic.
	Index int32
	// ErrorCode is Kafka's error number, 0 for none.
	ErrorCode int16
	// BaseOffset is the offset of the first record, -1 on error.
	BaseOffset int64
	// LogAppendTime is in milliseconds, -1 when records keep their own time.
	LogAppendTime int64
	// LogStartOffset is the first offset of the log, -1 when unknown.
	LogStartOffset int64
	// RecordErrors lists the records at fault, from version 8 on.
	RecordErrors []RecordError
	// ErrorMessage says what is wrong, from version 8 on; "" is null.
	ErrorMessage string
	// Leader is the current leader, when the client asked another one (KIP-951).
	Leader *CurrentLeader
}

// RecordError names one record that is at fault (KIP-467).
type RecordError struct {
	// BatchIndex is the position of the record in its batch.
	BatchIndex int32
	// Message says what is wrong; "" is null.
	Message string
}

// CurrentLeader tells a client which broker to ask instead (KIP-951).
type CurrentLeader struct {
	// ID is the broker's id, -1 when unknown.
	ID int32
	// Epoch is the leader epoch, -1 when unknown.
	Epoch int32
}

// Endpoint is the address of a broker that a CurrentLeader names.
type Endpoint struct {
	// NodeID is the broker's id.
	NodeID int32
	// Host is its name or address.
	Host string
	// Port is its TCP port.
	Port int32
}

// AppendProduceTopics appends the start of a Produce answer: the number of topics.
func AppendProduceTopics(dst []byte, version int16, topics int) []byte {
	return appendArrayLen(dst, topics, version >= 9)
}

// AppendProduceTopic appends the start of one topic of a Produce answer. name is used up to
// version 12, id from 13 on.
func AppendProduceTopic(
	dst []byte, version int16, name string, id [16]byte, partitions int,
) []byte {
	if version >= 13 {
		dst = append(dst, id[:]...)
	} else {
		dst = appendString(dst, name, version >= 9)
	}
	return appendArrayLen(dst, partitions, version >= 9)
}

// AppendProducePartition appends one partition of a Produce answer.
func AppendProducePartition(dst []byte, version int16, p *ProduceResult) []byte {
	flexible := version >= 9
	dst = appendInt32(dst, p.Index)
	dst = appendInt16(dst, p.ErrorCode)
	dst = appendInt64(dst, p.BaseOffset)
	dst = appendInt64(dst, p.LogAppendTime)
	if version >= 5 {
		dst = appendInt64(dst, p.LogStartOffset)
	}
	if version >= 8 {
		dst = appendArrayLen(dst, len(p.RecordErrors), flexible)
		for i := range p.RecordErrors {
			dst = appendInt32(dst, p.RecordErrors[i].BatchIndex)
			dst = appendNullableString(dst, p.RecordErrors[i].Message, flexible)
			if flexible {
				dst = append(dst, 0)
			}
		}
		dst = appendNullableString(dst, p.ErrorMessage, flexible)
	}
	if !flexible {
		return dst
	}
	if p.Leader == nil || version < 10 {
		return append(dst, 0)
	}
	return appendLeader(append(dst, 1), 0, p.Leader)
}

// AppendTopicEnd appends the end of one topic of a Produce or Fetch answer.
func AppendTopicEnd(dst []byte, flexible bool) []byte {
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// AppendProduceEnd appends the end of a Produce answer.
func AppendProduceEnd(dst []byte, version int16, throttleMillis int32, nodes []Endpoint) []byte {
	dst = appendInt32(dst, throttleMillis)
	if version < 9 {
		return dst
	}
	if len(nodes) == 0 || version < 10 {
		return append(dst, 0)
	}
	return appendEndpoints(append(dst, 1), nodes)
}

// appendLeader appends a CurrentLeader as the tagged field tag.
func appendLeader(dst []byte, tag uint32, l *CurrentLeader) []byte {
	dst = binary.AppendUvarint(dst, uint64(tag))
	dst = append(dst, 4+4+1)
	dst = appendInt32(dst, l.ID)
	dst = appendInt32(dst, l.Epoch)
	return append(dst, 0)
}

// appendEndpoints appends broker addresses as tagged field 0.
func appendEndpoints(dst []byte, nodes []Endpoint) []byte {
	body := appendArrayLen(nil, len(nodes), true)
	for i := range nodes {
		body = appendInt32(body, nodes[i].NodeID)
		body = appendString(body, nodes[i].Host, true)
		body = appendInt32(body, nodes[i].Port)
		body = append(body, 0, 0) // no rack, no tags
	}
	dst = append(dst, 0)
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	return append(dst, body...)
}
