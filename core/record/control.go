package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the kind of marker in a control batch.
type ControlType int16

// The control types of transactions. Others exist; readers skip those they do not know.
const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
)

// ControlOptions are the fields of a transaction marker.
type ControlOptions struct {
	Type             ControlType
	BaseOffset       int64
	LeaderEpoch      int32
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32 // epoch of the transaction coordinator that decided
	Timestamp        int64 // milliseconds
}

// ControlBatch returns a transaction marker (KIP-98): one record with key {version 0, type} and
// value {version 0, coordinator epoch}.
func ControlBatch(o ControlOptions) Batch {
	b := NewBuilder(BuilderOptions{
		BaseOffset: o.BaseOffset, LeaderEpoch: o.LeaderEpoch, Idempotent: true,
		ProducerID: o.ProducerID, ProducerEpoch: o.ProducerEpoch, BaseSequence: NoSequence,
		Transactional: true, Control: true,
	})
	key := binary.BigEndian.AppendUint16(make([]byte, 2, 4), uint16(o.Type))
	value := binary.BigEndian.AppendUint32(make([]byte, 2, 6), uint32(o.CoordinatorEpoch))
	b.Append(Record{Timestamp: o.Timestamp, Key: key, Value: value})
	batch, err := b.Build()
	if err != nil {
		panic(fmt.Sprintf("record: a control batch is never empty nor large: %v", err))
	}
	return batch
}

// ParseControl reads the type and coordinator epoch from the record of a control batch. The epoch
// is -1 for types other than ControlAbort and ControlCommit.
func ParseControl(r *Record) (t ControlType, coordinatorEpoch int32, err error) {
	if len(r.Key) < 4 {
		return 0, -1, fmt.Errorf("control record at offset %d has a key of %d bytes, want 4: %w",
			r.Offset, len(r.Key), ErrCorrupt)
	}
	t = ControlType(binary.BigEndian.Uint16(r.Key[2:]))
	if t != ControlAbort && t != ControlCommit {
		return t, -1, nil
	}
	if len(r.Value) < 6 {
		return t, -1, fmt.Errorf("marker at offset %d has a value of %d bytes, want 6: %w",
			r.Offset, len(r.Value), ErrCorrupt)
	}
	return t, int32(binary.BigEndian.Uint32(r.Value[2:])), nil
}
