package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AppendRetained appends to dst what compaction keeps of b: the given ones of its records, with
// their offsets, under b's header. The offsets that b covers, and with them its sequences, stay.
// The codec is b's. A horizonMS of 0 or more becomes the batch's delete horizon (KIP-534), which
// the records' timestamps are then relative to.
func (b Batch) AppendRetained(dst []byte, records []Record, horizonMS int64) ([]byte, error) {
	base, maxTime := NoTimestamp, NoTimestamp
	if len(records) > 0 {
		base = records[0].Timestamp
	}
	if horizonMS >= 0 {
		base = horizonMS
	}
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	body := dst
	if b.Codec() != None {
		body = nil
	}
	for i := range records {
		maxTime = max(maxTime, records[i].Timestamp)
		body = appendRecord(body, &records[i], base, b.BaseOffset())
	}
	if b.Codec() == None {
		dst = body
	} else {
		var err error
		if dst, err = b.Codec().Compress(dst, body); err != nil {
			return dst[:start], fmt.Errorf("compress the batch at offset %d: %w", b.BaseOffset(), err)
		}
	}
	if len(dst)-start > math.MaxInt32 {
		return dst[:start], fmt.Errorf("batch of %d bytes: %w", len(dst)-start, ErrTooLarge)
	}
	attrs := uint16(b.Attributes()) &^ attrDeleteHorizon
	if horizonMS >= 0 {
		attrs |= attrDeleteHorizon
	}
	if b.TimestampType() == LogAppendTime {
		maxTime = b.MaxTimestamp()
	}
	b.writeRetained(dst[start:], attrs, base, maxTime, len(records))
	return dst, nil
}

// AppendEmpty appends b's header with no records, which is what compaction leaves of a batch whose
// records are gone but whose offsets or sequences still count. MaxTimestamp stays.
func (b Batch) AppendEmpty(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	attrs := uint16(b.Attributes()) &^ (attrDeleteHorizon | attrCodec)
	b.writeRetained(dst[start:], attrs, NoTimestamp, b.MaxTimestamp(), 0)
	return dst
}

// writeRetained fills the header of out, a batch made of some of b's records.
func (b Batch) writeRetained(out []byte, attrs uint16, baseTime, maxTime int64, count int) {
	copy(out, b[:HeaderSize])
	be := binary.BigEndian
	be.PutUint32(out[posLength:], uint32(len(out)-lengthOverhead))
	be.PutUint16(out[posAttributes:], attrs)
	be.PutUint64(out[posBaseTimestamp:], uint64(baseTime))
	be.PutUint64(out[posMaxTimestamp:], uint64(maxTime))
	be.PutUint32(out[posCount:], uint32(count))
	Batch(out).UpdateCRC()
}

// appendRecord encodes one record relative to the time and offset of its batch.
func appendRecord(dst []byte, r *Record, baseTime, baseOffset int64) []byte {
	timeDelta, offsetDelta := r.Timestamp-baseTime, r.Offset-baseOffset
	dst = AppendVarint(dst, int64(recordSize(r, timeDelta, offsetDelta)))
	dst = append(dst, 0)
	dst = AppendVarint(dst, timeDelta)
	dst = AppendVarint(dst, offsetDelta)
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = AppendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		dst = AppendVarint(dst, int64(len(r.Headers[i].Key)))
		dst = append(dst, r.Headers[i].Key...)
		dst = appendBytes(dst, r.Headers[i].Value)
	}
	return dst
}
