package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Positions of the header's fields. See the table in the package comment.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	// HeaderSize is the size of a batch without records, in bytes.
	HeaderSize = 61
	// lengthOverhead is what batchLength does not count: base offset and itself.
	lengthOverhead = 12
	magicV2        = 2
)

// Bits of the attributes field.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
	attrDeleteHorizon = 1 << 6
)

// TimestampType says who set the timestamps of a batch.
type TimestampType int8

// The timestamp types of the protocol.
const (
	CreateTime    TimestampType = 0 // the producer
	LogAppendTime TimestampType = 1 // the broker, one time for the whole batch: MaxTimestamp
)

// Values that say "none" in a batch without producer.
const (
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is exactly one encoded batch. Its accessors read in place and allocate nothing; they need
// at least HeaderSize bytes, which Next and Builder.Build guarantee.
type Batch []byte

// Next splits the first batch off b. It checks the length field and the magic, not the CRC.
// ErrShort means that b ends inside the batch; ErrCorrupt and ErrUnsupportedMagic that no batch
// starts at b.
func Next(b []byte) (batch Batch, rest []byte, err error) {
	if len(b) < lengthOverhead {
		return nil, b, ErrShort
	}
	length := int64(int32(binary.BigEndian.Uint32(b[posLength:])))
	if len(b) > posMagic && length > 0 && b[posMagic] != magicV2 {
		return nil, b, fmt.Errorf("batch with magic %d: %w", int8(b[posMagic]), ErrUnsupportedMagic)
	}
	if length < HeaderSize-lengthOverhead {
		return nil, b, fmt.Errorf("batch length %d is below %d: %w",
			length, HeaderSize-lengthOverhead, ErrCorrupt)
	}
	size := length + lengthOverhead
	if int64(len(b)) < size {
		return nil, b, ErrShort
	}
	return Batch(b[:size:size]), b[size:], nil
}

// BaseOffset returns the offset of the first record (of the first record ever, if compaction
// removed it).
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[posBaseOffset:])) }

// SetBaseOffset moves the batch; it is outside the CRC.
func (b Batch) SetBaseOffset(o int64) { binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(o)) }

// LastOffset returns the offset of the last record, also when compaction removed that record.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset returns the offset after the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// Len returns the size the length field claims, in bytes, header included.
func (b Batch) Len() int {
	return int(int32(binary.BigEndian.Uint32(b[posLength:]))) + lengthOverhead
}

// LeaderEpoch returns the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[posLeaderEpoch:])) }

// SetLeaderEpoch sets the leader epoch; it is outside the CRC.
func (b Batch) SetLeaderEpoch(e int32) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(e))
}

// Magic returns the format version; 2 in every Batch made here.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC returns the stored checksum.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// CheckCRC computes the CRC-32C (Castagnoli, RFC 3720) of bytes 21 to the end and compares it with
// the stored one. The error is ErrCorrupt with both sums.
func (b Batch) CheckCRC() error {
	if sum := crc32.Checksum(b[posAttributes:], castagnoli); sum != b.CRC() {
		return fmt.Errorf("batch at offset %d has CRC %08x, its bytes give %08x: %w",
			b.BaseOffset(), b.CRC(), sum, ErrCorrupt)
	}
	return nil
}

// UpdateCRC stores the checksum of the present bytes.
func (b Batch) UpdateCRC() {
	binary.BigEndian.PutUint32(b[posCRC:], crc32.Checksum(b[posAttributes:], castagnoli))
}

// Attributes returns the attribute bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[posAttributes:])) }

// Codec returns the compression of the records part; it may be one that is not known.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodec) }

// IsControl reports whether the batch carries a marker for the log's readers instead of data.
func (b Batch) IsControl() bool { return b.Attributes()&attrControl != 0 }

// IsTransactional reports whether the batch is part of a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&attrTransactional != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is the time after which compaction may drop the
// batch's tombstones (KIP-534). Timestamps of its records are then relative to it.
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&attrDeleteHorizon != 0 }

// TimestampType says who set the timestamps.
func (b Batch) TimestampType() TimestampType {
	if b.Attributes()&attrLogAppendTime != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// LastOffsetDelta returns LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

// BaseTimestamp returns the time, in milliseconds, that the records' timestamps are relative to.
func (b Batch) BaseTimestamp() int64 {
	return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:]))
}

// MaxTimestamp returns the largest timestamp in the batch, in milliseconds, or NoTimestamp.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }

// ProducerID returns the id of an idempotent producer, or NoProducerID.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[posProducerID:])) }

// ProducerEpoch returns the epoch of the producer id, or NoProducerEpoch.
func (b Batch) ProducerEpoch() int16 {
	return int16(binary.BigEndian.Uint16(b[posProducerEpoch:]))
}

// BaseSequence returns the producer's number of the first record, or NoSequence.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// LastSequence returns the producer's number of the last record. Sequences wrap from 2^31-1 to 0
// (KIP-98). NoSequence if the batch has none.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base < 0 {
		return NoSequence
	}
	return int32((int64(base) + int64(b.LastOffsetDelta())) & 0x7fffffff)
}

// Count returns the number of records in the batch, 0 in one that compaction emptied. It is a
// claim of the header until the records are walked.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[posCount:])) }

// SetLogAppendTime sets the time of all records to ms, the broker's, and renews the CRC. Records
// need no rewrite: readers take MaxTimestamp for each of them.
func (b Batch) SetLogAppendTime(ms int64) {
	attrs := uint16(b.Attributes()) | attrLogAppendTime
	binary.BigEndian.PutUint16(b[posAttributes:], attrs)
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	b.UpdateCRC()
}
