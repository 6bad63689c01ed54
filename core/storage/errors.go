package storage

import (
	"errors"
	"fmt"
)

// Errors of Log.Append that are the caller's fault. Nothing was written.
var (
	// ErrCorrupt says that a batch breaks the format or its CRC.
	ErrCorrupt = errors.New("corrupt batch")
	// ErrInvalidRecord says that a well-formed batch breaks a rule of the protocol or the topic.
	// A RecordsError names the records.
	ErrInvalidRecord = errors.New("invalid record")
	// ErrInvalidTimestamp says that a timestamp is outside the topic's window around now.
	ErrInvalidTimestamp = errors.New("timestamp out of range")
	// ErrTooLarge says that a batch is larger than max.message.bytes or than a segment.
	ErrTooLarge = errors.New("batch too large")
	// ErrOutOfOrderSequence says that a producer's sequence neither follows its last one nor
	// repeats one of its last five batches (KIP-98).
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrInvalidProducerEpoch says that a newer instance of the producer has written already.
	ErrInvalidProducerEpoch = errors.New("invalid producer epoch")
	// ErrInvalidTxnState says that a transactional batch belongs to no transaction the coordinator
	// knows of (KIP-890), or that a batch outside came while its producer's transaction is open.
	ErrInvalidTxnState = errors.New("invalid transaction state")
	// ErrTransactionCoordinatorFenced says that a marker comes from a coordinator whose place
	// another one has taken.
	ErrTransactionCoordinatorFenced = errors.New("transaction coordinator fenced")
	// ErrTooManyProducers says that a producer is new, and as many are remembered as may be.
	ErrTooManyProducers = errors.New("too many producers")
	// ErrStaleEpoch says that a newer leader epoch has been assigned to the log.
	ErrStaleEpoch = errors.New("stale leader epoch")
	// ErrOffsetOrder says that a replicated batch lies before the end of the log.
	ErrOffsetOrder = errors.New("batch offset before the end of the log")
)

// Errors of reading.
var (
	// ErrOffsetOutOfRange says that an offset lies before the log's start or after its end.
	ErrOffsetOutOfRange = errors.New("offset out of range")
)

// Errors of the disk. Nothing of the refused write is in the log.
var (
	// ErrNoSpace says that the disk is full. The same call works again once there is space.
	ErrNoSpace = errors.New("no space left on the disk")
	// ErrNoFiles says that the process or the machine has no descriptor left for another open file.
	// The same call works again once there are some.
	ErrNoFiles = errors.New("no file descriptor left, see ulimit -n")
	// ErrDirFailed says that the data directory failed for good: the kernel may have dropped
	// writes, so only a restart, which reads what is really there, may go on.
	ErrDirFailed = errors.New("data directory has failed")
	// ErrCleaningVoid says that the log changed below a Cleaning, which then replaces nothing.
	ErrCleaningVoid = errors.New("log was truncated, trimmed or closed while it was compacted")
	// ErrCleaningBusy says that another Cleaning of the log is open.
	ErrCleaningBusy = errors.New("log is being compacted already")
	// ErrDamaged says that bytes which were on the disk for sure have changed. The partition is
	// offline and its files are left as they are, since cutting them would lose the rest.
	ErrDamaged = errors.New("log is damaged below its recovery point")
)

// Errors of Dir.
var (
	// ErrClosed says that the log or its directory was closed, or the partition deleted.
	ErrClosed = errors.New("log is closed")
	// ErrLocked says that another process uses the data directory.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrWrongDir says that the directory belongs to another cluster or node.
	ErrWrongDir = errors.New("data directory belongs to another cluster or node")
	// ErrUnknownPartition says that the directory has no log of that partition.
	ErrUnknownPartition = errors.New("no such partition in the data directory")
	// ErrInvalidConfig says that a Config field is out of its range.
	ErrInvalidConfig = errors.New("invalid log config")
	// ErrBadFile says that a checkpoint or metadata file cannot be parsed.
	ErrBadFile = errors.New("malformed file")
)

// RecordError is why one record of a batch was refused.
type RecordError struct {
	Index   int // position in the batch, from 0
	Message string
}

// RecordsError is a refused batch: Kind is ErrInvalidRecord or ErrInvalidTimestamp. Records is
// empty if the batch as a whole is at fault.
type RecordsError struct {
	Kind    error
	Message string
	Records []RecordError
}

// Error implements error.
func (e *RecordsError) Error() string {
	if len(e.Records) == 0 {
		return fmt.Sprintf("%v: %s", e.Kind, e.Message)
	}
	first := e.Records[0]
	return fmt.Sprintf("%v: %s (record %d: %s; %d in all)",
		e.Kind, e.Message, first.Index, first.Message, len(e.Records))
}

// Unwrap gives Kind to errors.Is.
func (e *RecordsError) Unwrap() error { return e.Kind }

// invalidBatch is a RecordsError about a whole batch.
func invalidBatch(format string, args ...any) error {
	return &RecordsError{Kind: ErrInvalidRecord, Message: fmt.Sprintf(format, args...)}
}
