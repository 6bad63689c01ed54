package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// BuilderOptions are the header fields of a batch to build. The zero value is an uncompressed batch
// at offset 0; note that a ProducerID of 0 without Idempotent means none.
type BuilderOptions struct {
	Codec         Codec
	BaseOffset    int64 // offset of the first record; a producer leaves it 0
	LeaderEpoch   int32 // written as it is; -1 from a producer
	Idempotent    bool  // the three fields below count; else they are written as "none"
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32 // of the first record
	Transactional bool
	Control       bool          // the record is a marker, see ControlBatch
	TimestampType TimestampType // LogAppendTime marks the batch; readers then take its MaxTimestamp
}

// Builder encodes records into one batch. Offsets are consecutive from BaseOffset. It is reused by
// Reset and then allocates nothing once its buffers have grown.
type Builder struct {
	opts     BuilderOptions
	buf      []byte // header space, then the records uncompressed
	packed   []byte // header and compressed records, if a codec is set
	baseTime int64
	maxTime  int64
	count    int32
}

// NewBuilder returns an empty builder.
func NewBuilder(opts BuilderOptions) *Builder {
	b := &Builder{}
	b.Reset(opts)
	return b
}

// Reset empties the builder for the next batch. The batch of an earlier Build is overwritten from
// here on.
func (b *Builder) Reset(opts BuilderOptions) {
	b.opts = opts
	if cap(b.buf) < HeaderSize {
		b.buf = make([]byte, HeaderSize, 1024)
	}
	b.buf = b.buf[:HeaderSize]
	b.count = 0
	b.baseTime, b.maxTime = NoTimestamp, NoTimestamp
}

// Append encodes one record. Its Offset is ignored; its bytes are copied.
func (b *Builder) Append(r Record) {
	if b.count == 0 {
		b.baseTime = r.Timestamp
	}
	if r.Timestamp > b.maxTime {
		b.maxTime = r.Timestamp
	}
	r.Offset = int64(b.count)
	b.buf = appendRecord(b.buf, &r, b.baseTime, 0)
	b.count++
}

// Size returns the size in bytes of the batch so far, uncompressed.
func (b *Builder) Size() int { return len(b.buf) }

// Count returns the number of records appended since Reset.
func (b *Builder) Count() int { return int(b.count) }

// Build returns the batch, which is valid until Reset. A batch without records, and one past the
// 2 GiB the length field can say (ErrTooLarge), are errors.
func (b *Builder) Build() (Batch, error) {
	if b.count == 0 {
		return nil, fmt.Errorf("build a batch without records: %w", ErrCorrupt)
	}
	out := b.buf
	if b.opts.Codec != None {
		packed := append(b.packed[:0], b.buf[:HeaderSize]...)
		packed, err := b.opts.Codec.Compress(packed, b.buf[HeaderSize:])
		if err != nil {
			return nil, fmt.Errorf("compress a batch: %w", err)
		}
		b.packed, out = packed, packed
	}
	if len(out) > math.MaxInt32 {
		return nil, fmt.Errorf("batch of %d bytes: %w", len(out), ErrTooLarge)
	}
	b.writeHeader(out)
	return Batch(out[:len(out):len(out)]), nil
}

func (b *Builder) writeHeader(out []byte) {
	o := &b.opts
	attrs := uint16(o.Codec) & attrCodec
	if o.TimestampType == LogAppendTime {
		attrs |= attrLogAppendTime
	}
	if o.Transactional {
		attrs |= attrTransactional
	}
	if o.Control {
		attrs |= attrControl
	}
	pid, epoch, seq := NoProducerID, NoProducerEpoch, NoSequence
	if o.Idempotent {
		pid, epoch, seq = o.ProducerID, o.ProducerEpoch, o.BaseSequence
	}
	be := binary.BigEndian
	be.PutUint64(out[posBaseOffset:], uint64(o.BaseOffset))
	be.PutUint32(out[posLength:], uint32(len(out)-lengthOverhead))
	be.PutUint32(out[posLeaderEpoch:], uint32(o.LeaderEpoch))
	out[posMagic] = magicV2
	be.PutUint16(out[posAttributes:], attrs)
	be.PutUint32(out[posLastOffsetDelta:], uint32(b.count-1))
	be.PutUint64(out[posBaseTimestamp:], uint64(b.baseTime))
	be.PutUint64(out[posMaxTimestamp:], uint64(b.maxTime))
	be.PutUint64(out[posProducerID:], uint64(pid))
	be.PutUint16(out[posProducerEpoch:], uint16(epoch))
	be.PutUint32(out[posBaseSequence:], uint32(seq))
	be.PutUint32(out[posCount:], uint32(b.count))
	Batch(out).UpdateCRC()
}

// recordSize is the value of a record's length field.
func recordSize(r *Record, timeDelta, offsetDelta int64) int {
	n := 1 + VarintSize(timeDelta) + VarintSize(offsetDelta) +
		bytesSize(r.Key) + bytesSize(r.Value) + VarintSize(int64(len(r.Headers)))
	for i := range r.Headers {
		key := len(r.Headers[i].Key)
		n += VarintSize(int64(key)) + key + bytesSize(r.Headers[i].Value)
	}
	return n
}

func bytesSize(v []byte) int {
	if v == nil {
		return 1
	}
	return VarintSize(int64(len(v))) + len(v)
}

func appendBytes(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 1) // zig-zag of -1
	}
	dst = AppendVarint(dst, int64(len(v)))
	return append(dst, v...)
}
