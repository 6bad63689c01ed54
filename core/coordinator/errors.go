package coordinator

import "errors"

// Errors that an implementation of Log returns from Append. Anything else is taken for a definite
// failure: nothing was written.
var (
	// ErrNotLeader says that this node does not lead the partition, or no longer in that epoch.
	ErrNotLeader = errors.New("this node does not lead the partition")
	// ErrTooLarge says that the records do not fit into a batch of the topic.
	ErrTooLarge = errors.New("records are larger than a batch may be")
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
	default:
		return CodeCoordinatorNotAvailable
	}
}
