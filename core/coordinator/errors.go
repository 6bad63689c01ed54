package coordinator

import "errors"

// Errors that an implementation of Log returns from Append. Anything else is taken for a definite
// failure: nothing was written.
var (
	// ErrNotLeader says that this node does not lead the partition, or no longer in that epoch.
	ErrNotLeader = errors.New("this node does not lead the partition")
	// ErrTooLarge says that the records do not fit into a batch of the topic.
	ErrTooLarge = errors.New("records are larger than a batch may be")
	// ErrInvalidProducerEpoch says that a transactional batch or a marker is of a producer that has
	// been fenced by a newer epoch.
	ErrInvalidProducerEpoch = errors.New("producer epoch is not the current one")
	// ErrTransactionCoordinatorFenced says that a marker is of an older transaction coordinator.
	ErrTransactionCoordinatorFenced = errors.New("transaction coordinator epoch is not the current one")
	// ErrInvalidTxnState says that a transactional batch is not part of a transaction, or an ordinary
	// one would get into one.
	ErrInvalidTxnState = errors.New("the producer has no such transaction open")
	// ErrNotTransactional says that a log has transactions which its machine does not know of.
	ErrNotTransactional = errors.New("the log has transactions, its machine takes none")
	// ErrUnknownOutcome says that the records may or may not be in the log: the shard loads again.
	ErrUnknownOutcome = errors.New("outcome of the append is not known")
)

// codeOf is the table from append errors to what clients are told: 16 makes them look for the
// coordinator, 15 makes them wait and try again.
func codeOf(err error) ErrorCode {
	switch {
	case err == nil:
		return CodeNone
	case errors.Is(err, ErrNotLeader):
		return CodeNotCoordinator
	case errors.Is(err, ErrTooLarge):
		return CodeInvalidCommitOffsetSize
	case errors.Is(err, ErrInvalidProducerEpoch):
		return CodeInvalidProducerEpoch
	case errors.Is(err, ErrTransactionCoordinatorFenced):
		return CodeTransactionCoordinatorFenced
	case errors.Is(err, ErrInvalidTxnState):
		return CodeInvalidTxnState
	default:
		return CodeCoordinatorNotAvailable
	}
}
