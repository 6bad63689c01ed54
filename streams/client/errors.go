package client

import "errors"

// Errors of the ports, whatever the implementation.
var (
	// ErrClosed reports use after Close.
	ErrClosed = errors.New("client is closed")
	// ErrUnknownTopic reports a topic or partition that does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrOffsetOutOfRange reports a position the log does not have: before its start, because
	// retention removed what was not read yet, or after its end, because the log was cut.
	ErrOffsetOutOfRange = errors.New("position is not in the log")
	// ErrLost reports that a transaction cannot be ended as it was begun: another holder of its id
	// has taken over, the log gave it up, or nobody knows how it ended. What was sent since the
	// last commit counts only if the next holder of the id finds it committed.
	ErrLost = errors.New("transaction lost")
	// ErrUnavailable reports a log that cannot be reached, or cannot answer yet: trying again may help.
	ErrUnavailable = errors.New("log is not available")
	// ErrProduce reports records that were not, or not provably, appended.
	ErrProduce = errors.New("records not appended")
)
