package pluginpb

import (
	"encoding/binary"

	"github.com/millstream-io/millstream/core/record"
)

// Sizes of the protocol.
const (
	// MaxFrameBytes is the most a frame may take, in bytes.
	MaxFrameBytes = 64 << 20
	// ChunkBytes is the most frame bytes one message carries.
	ChunkBytes = 1 << 20
	// MaxMessageBytes is the gRPC message limit of both sides: a chunk with its counts and errors.
	MaxMessageBytes = 64<<20 + 1<<20
	// FrameHeaderBytes is the size of the fixed part of a frame.
	FrameHeaderBytes = 24
	// MinRecordBytes is the least a record takes in a frame.
	MinRecordBytes = 7

	frameMagic   = 0x4D46
	frameVersion = 1
)

// Record is a record with the place it comes from. For records a source reads, Topic and Offset
// name the place in the system it reads (a file and its line, for example).
type Record struct {
	record.Record
	Topic     string
	Partition int32
}

// Clone returns a record that shares no memory with r, but for strings.
func (r *Record) Clone() Record {
	return Record{Record: r.Record.Clone(), Topic: r.Topic, Partition: r.Partition}
}

// Encoder packs records into a frame. The zero value is ready; it is reused after Finish.
type Encoder struct {
	buf        []byte
	count      uint32
	baseTime   int64
	baseOffset int64
	topics     []string
}

// Mark is a place in a frame to come back to.
type Mark struct {
	bytes  int
	count  uint32
	topics int
}

// Append adds r. It never fails; whoever fills the frame looks at Len.
func (e *Encoder) Append(r *Record) {
	if len(e.buf) == 0 {
		e.start()
	}
	if e.count == 0 {
		e.baseTime, e.baseOffset = r.Timestamp, r.Offset
	}
	b := e.appendTopic(e.buf, r.Topic)
	b = record.AppendVarint(b, int64(r.Partition))
	b = record.AppendVarint(b, r.Timestamp-e.baseTime)
	b = record.AppendVarint(b, r.Offset-e.baseOffset)
	b = appendBytes(b, r.Key)
	b = appendBytes(b, r.Value)
	b = record.AppendVarint(b, int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		b = record.AppendVarint(b, int64(len(h.Key)))
		b = append(b, h.Key...)
		b = appendBytes(b, h.Value)
	}
	e.buf = b
	e.count++
}

func (e *Encoder) start() {
	if cap(e.buf) < FrameHeaderBytes {
		e.buf = GetBuffer(minBuffer)
	}
	e.buf = e.buf[:FrameHeaderBytes]
	clear(e.buf)
	e.count, e.topics = 0, e.topics[:0]
}

func (e *Encoder) appendTopic(b []byte, topic string) []byte {
	for i := len(e.topics) - 1; i >= 0; i-- {
		if e.topics[i] == topic {
			return record.AppendUvarint(b, uint64(i))
		}
	}
	b = record.AppendUvarint(b, uint64(len(e.topics)))
	e.topics = append(e.topics, topic)
	b = record.AppendUvarint(b, uint64(len(topic)))
	return append(b, topic...)
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return append(b, 1) // zigzag of -1
	}
	b = record.AppendVarint(b, int64(len(v)))
	return append(b, v...)
}

// Count is the number of records appended so far.
func (e *Encoder) Count() int { return int(e.count) }

// Len is the size of the frame so far, in bytes.
func (e *Encoder) Len() int { return len(e.buf) }

// Mark remembers the end of the frame.
func (e *Encoder) Mark() Mark { return Mark{len(e.buf), e.count, len(e.topics)} }

// Rollback drops what was appended after m.
func (e *Encoder) Rollback(m Mark) {
	e.buf, e.count, e.topics = e.buf[:m.bytes], m.count, e.topics[:m.topics]
}

// Finish returns the frame, which now belongs to the caller, and empties the encoder. Without
// records it returns nil, which stands for an empty frame in every message.
func (e *Encoder) Finish() []byte {
	if e.count == 0 {
		e.buf = e.buf[:0]
		return nil
	}
	b := e.buf
	e.buf = nil
	binary.BigEndian.PutUint16(b, frameMagic)
	b[2], b[3] = frameVersion, 0
	binary.BigEndian.PutUint32(b[4:], e.count)
	binary.BigEndian.PutUint64(b[8:], uint64(e.baseTime))
	binary.BigEndian.PutUint64(b[16:], uint64(e.baseOffset))
	e.count, e.topics = 0, e.topics[:0]
	return b
}

// Grow makes room for a frame of about n bytes, so that appending does not copy.
func (e *Encoder) Grow(n int) {
	if len(e.buf) == 0 && cap(e.buf) < n {
		e.buf = GetBuffer(n)[:0]
	}
}

// Encode packs records into one frame, nil when there are none.
func Encode(records []Record) []byte {
	var e Encoder
	size := FrameHeaderBytes
	for i := range records {
		size += SizeBound(&records[i])
	}
	e.Grow(size)
	for i := range records {
		e.Append(&records[i])
	}
	return e.Finish()
}

// SizeBound is an upper bound of the bytes r takes in a frame.
func SizeBound(r *Record) int {
	n := 48 + len(r.Key) + len(r.Value) + len(r.Topic)
	for i := range r.Headers {
		n += 12 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}
