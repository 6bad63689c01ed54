package task

import "errors"

// Errors of NewWorker and of the start of Run: nothing has been processed or changed.
var (
	// ErrTopics reports topics that are missing or have an unexpected number of partitions.
	ErrTopics = errors.New("topics do not fit the pipeline")
	// ErrStateLost reports a group with committed offsets whose changelog holds no commit record:
	// going on would process everything again.
	ErrStateLost = errors.New("commit record is missing")
	// ErrCommitRecord reports a commit record this version cannot read.
	ErrCommitRecord = errors.New("malformed commit record")
)

// Errors of a running task.
var (
	// ErrStateFull reports that committed rows could not be written to the state file for so long
	// that their memory bound is reached.
	ErrStateFull = errors.New("state file cannot be written")
	// ErrPosition reports a position outside of the log of an input.
	ErrPosition = errors.New("input position is not in the log")
	// ErrMoved is why what runs in one worker at a time has to end here: another one runs it now.
	ErrMoved = errors.New("another worker runs it")
)
