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
	// ErrProduce reports records that were not, or not provably, appended.
	ErrProduce = errors.New("records not appended")
)
