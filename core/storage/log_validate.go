package storage

import (
	"errors"
	"fmt"
	"math"

	"github.com/millstream-io/millstream/core/record"
)

// minRecordSize is the smallest record: length, attributes, two deltas, two null lengths and a
// header count, one byte each.
const minRecordSize = 7

// maxRecordErrors bounds the list of refused records in an error.
const maxRecordErrors = 64

// magicAt is the position of the format version in batches of every version.
const magicAt = 16

// validateClient checks the one batch a producer sent, by its header; records are walked only where
// the header cannot tell (LogValidator in Kafka has the same rules and order).
func validateClient(b []byte, c *Config, nowMS int64) error {
	if len(b) == 0 {
		return invalidBatch("no batch, want exactly one")
	}
	if len(b) > magicAt {
		switch magic := int8(b[magicAt]); magic {
		case 0, 1:
			return invalidBatch("message format version %d, only 2 is supported", magic)
		case 2:
		default:
			return fmt.Errorf("%w: message format version %d, only 2 is known", ErrCorrupt, magic)
		}
	}
	batch, rest, err := record.Next(b)
	if errors.Is(err, record.ErrShort) {
		return invalidBatch("%d bytes are less than one whole batch", len(b))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(rest) > 0 {
		return invalidBatch("%d bytes after the batch, want exactly one batch", len(rest))
	}
	if batch.BaseOffset() != 0 {
		return invalidBatch("base offset %d, want 0", batch.BaseOffset())
	}
	if err := checkSize(len(b), c); err != nil {
		return err
	}
	if err := batch.CheckCRC(); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := checkFields(batch); err != nil {
		return err
	}
	return checkRecords(batch, c, nowMS)
}

func checkSize(n int, c *Config) error {
	if n > c.MaxMessageBytes {
		return fmt.Errorf("%w: %d bytes, max.message.bytes is %d", ErrTooLarge, n,
			c.MaxMessageBytes)
	}
	if int64(n) > c.SegmentBytes {
		return fmt.Errorf("%w: %d bytes, segment.bytes is %d", ErrTooLarge, n, c.SegmentBytes)
	}
	return nil
}

// checkFields checks what a producer may put into the header.
func checkFields(b record.Batch) error {
	count, span := int64(b.Count()), int64(b.LastOffsetDelta())+1
	switch {
	case b.IsControl():
		return invalidBatch("clients may not write control batches")
	case span <= 0 || count <= 0:
		return invalidBatch("%d records over %d offsets", count, span)
	case count != span:
		return invalidBatch("%d records, but %d offsets", count, span)
	case b.Codec() > record.Zstd:
		return invalidBatch("compression codec %d is not known", b.Codec())
	case b.Codec() == record.None && int64(len(b)-record.HeaderSize) < count*minRecordSize:
		return invalidBatch("%d records in %d bytes", count, len(b)-record.HeaderSize)
	case b.ProducerID() >= 0 && b.BaseSequence() < 0:
		return invalidBatch("producer id %d without a sequence", b.ProducerID())
	case b.ProducerID() >= 0 && b.ProducerEpoch() < 0:
		return fmt.Errorf("%w: producer id %d without an epoch", ErrInvalidProducerEpoch,
			b.ProducerID())
	case b.ProducerID() < 0 && b.IsTransactional():
		return invalidBatch("transactional without a producer id")
	}
	return nil
}

// checkRecords checks timestamps and, in compacted topics, that every record has a key.
func checkRecords(b record.Batch, c *Config, nowMS int64) error {
	if b.TimestampType() == record.LogAppendTime && !c.LogAppendTime {
		return &RecordsError{Kind: ErrInvalidTimestamp,
			Message: "the producer set the timestamp type LogAppendTime"}
	}
	early := c.TimestampBeforeMaxMS != math.MaxInt64
	late := b.MaxTimestamp() > laterThan(nowMS, c.TimestampAfterMaxMS)
	if c.LogAppendTime {
		early, late = false, false
	}
	if !early && !late && !c.Compact {
		return nil
	}
	return walkRecords(b, c, nowMS)
}

// walkRecords finds the records that break a rule.
func walkRecords(b record.Batch, c *Config, nowMS int64) error {
	var badTime, badKey []RecordError
	latest, earliest := laterThan(nowMS, c.TimestampAfterMaxMS), nowMS-c.TimestampBeforeMaxMS
	i := 0
	err := b.Scan(maxPlainBytes(c), func(m record.Meta) bool {
		outside := m.Timestamp > latest || m.Timestamp < earliest
		if outside && !c.LogAppendTime && m.Timestamp != record.NoTimestamp {
			badTime = appendRecordError(badTime, i, "timestamp %d is outside [%d, %d]",
				m.Timestamp, earliest, latest)
		}
		if c.Compact && !m.HasKey {
			badKey = appendRecordError(badKey, i, "record without a key in a compacted topic")
		}
		i++
		return true
	})
	if errors.Is(err, record.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	if err != nil {
		return invalidBatch("%v", err)
	}
	switch {
	case len(badKey) > 0:
		return &RecordsError{Kind: ErrInvalidRecord, Message: "keys are required", Records: badKey}
	case len(badTime) > 0:
		return &RecordsError{Kind: ErrInvalidTimestamp,
			Message: "message.timestamp.before.max.ms or .after.max.ms", Records: badTime}
	}
	return nil
}

func appendRecordError(list []RecordError, i int, format string, args ...any) []RecordError {
	if len(list) == maxRecordErrors {
		return list
	}
	return append(list, RecordError{Index: i, Message: fmt.Sprintf(format, args...)})
}

// laterThan is now + span without overflow.
func laterThan(nowMS, spanMS int64) int64 {
	if spanMS > math.MaxInt64-nowMS {
		return math.MaxInt64
	}
	return nowMS + spanMS
}

// validateMarker checks the one control batch that a transaction coordinator sent.
func validateMarker(b []byte) error {
	batch, rest, err := record.Next(b)
	if err == nil {
		err = batch.CheckCRC()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	_, ok, err := readMarker(batch)
	switch {
	case len(rest) > 0 || batch.LastOffsetDelta() != 0 || batch.Count() != 1:
		return invalidBatch("a marker is one batch of one record")
	case !batch.IsControl() || !batch.IsTransactional():
		return invalidBatch("a marker is a transactional control batch")
	case batch.ProducerID() < 0 || batch.ProducerEpoch() < 0:
		return invalidBatch("marker of producer %d, epoch %d", batch.ProducerID(),
			batch.ProducerEpoch())
	case err == nil && !ok:
		return invalidBatch("a marker is an abort or a commit")
	}
	return err
}

// validateCoordinator checks batches that a coordinator of this broker made. Markers are not its
// business, and a producer's batch comes alone, so that it can be checked before any is written.
func validateCoordinator(b []byte, c *Config) error {
	if int64(len(b)) > c.SegmentBytes {
		return fmt.Errorf("%w: %d bytes, segment.bytes is %d", ErrTooLarge, len(b), c.SegmentBytes)
	}
	if err := validateInternal(b); err != nil {
		return err
	}
	for rest := record.Batch(b); len(rest) > 0; rest = rest[rest.Len():] {
		switch {
		case rest.IsControl():
			return invalidBatch("control batch that is no marker")
		case rest.ProducerID() >= 0 && rest.Len() < len(b):
			return invalidBatch("batch of producer %d together with others", rest.ProducerID())
		case rest.ProducerID() < 0 && rest.IsTransactional():
			return invalidBatch("transactional without a producer id")
		}
	}
	return nil
}

// validateInternal checks batches that a broker made: whole, intact, in order.
func validateInternal(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: no batch", ErrCorrupt)
	}
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if batch.LastOffsetDelta() < 0 {
			return fmt.Errorf("%w: last offset delta %d", ErrCorrupt, batch.LastOffsetDelta())
		}
		if batch.IsControl() && batch.ProducerID() >= 0 {
			if _, _, err := readMarker(batch); err != nil {
				return err
			}
		}
		b = rest
	}
	return nil
}
