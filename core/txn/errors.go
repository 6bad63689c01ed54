package txn

import "errors"

// Errors of reading records.
var (
	// ErrMalformedRecord says that a key or value of __transaction_state cannot be read.
	ErrMalformedRecord = errors.New("malformed record of the transaction log")
	// ErrUnknownVersion says that a key or value is of a version that a newer release wrote.
	ErrUnknownVersion = errors.New("unknown version of a record of the transaction log")
)
