package aggregate

import "errors"

// Errors of one record; they go to the policy of the step.
var (
	// ErrOverflow reports an integer sum or count that does not fit 64 bits.
	ErrOverflow = errors.New("integer overflow")
	// ErrNotNumber reports a value that cannot be added.
	ErrNotNumber = errors.New("value is not a number")
	// ErrNotFinite reports NaN or an infinity.
	ErrNotFinite = errors.New("value is not a finite number")
	// ErrMixed reports a string compared to a number.
	ErrMixed = errors.New("cannot compare a string and a number")
)

// ErrInvalid reports options that make no sense.
var ErrInvalid = errors.New("invalid aggregate")

// errRow reports a row of the store that this package did not write.
var errRow = errors.New("malformed row in the store of an aggregate")
