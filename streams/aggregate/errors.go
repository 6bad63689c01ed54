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
	// ErrNoOrder reports a value that is neither a number nor a string where an order is needed.
	ErrNoOrder = errors.New("only numbers and strings have an order")
	// ErrNotJSON reports a text that is no JSON value.
	ErrNotJSON = errors.New("value is not JSON")
	// ErrKeyTooLong reports a key that does not fit into a row.
	ErrKeyTooLong = errors.New("key is too long")
	// ErrTooLarge reports a result that has grown above its bound.
	ErrTooLarge = errors.New("result is too large")
	// ErrBelowZero reports a row taken back from a table that was never added.
	ErrBelowZero = errors.New("a row was taken back that had not been added")
)

// ErrInvalid reports options that make no sense.
var ErrInvalid = errors.New("invalid aggregate")

// errRow reports a row of the store that this package did not write.
var errRow = errors.New("malformed row in the store of an aggregate")
