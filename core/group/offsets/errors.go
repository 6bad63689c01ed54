package offsets

import "errors"

var (
	// ErrMalformed says that a key or value is not what its version says it is.
	ErrMalformed = errors.New("malformed __consumer_offsets record")
	// ErrUnknownVersion says that a record is of a kind or version this package does not know.
	ErrUnknownVersion = errors.New("unknown version of a __consumer_offsets record")
)
