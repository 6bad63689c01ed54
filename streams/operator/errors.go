package operator

import (
	"errors"
	"fmt"
)

// Classes of record errors this layer produces. Layers above add theirs (decode, expr, plugin).
const (
	// ClassOperator is the class of an error that names none.
	ClassOperator = "operator"
	// ClassTimestamp is the class of a record whose event time cannot be told.
	ClassTimestamp = "event_time"
	// ClassNullKey is the class of a record without a key where one is needed.
	ClassNullKey = "key"
	// ClassRoute is the class of a record that names a topic it may not go to.
	ClassRoute = "route"
	// ClassOverflow is the class of a sum that does not fit 64 bits.
	ClassOverflow = "overflow"
	// ClassTooLarge is the class of a result that has grown above its bound.
	ClassTooLarge = "too_large"
	// ClassLate is the class of a record that came after its window was closed.
	ClassLate = "late"
	// ClassEncode is the class of a result that cannot be written.
	ClassEncode = "encode"
	// ClassDecode is the class of bytes that cannot be read.
	ClassDecode = "decode"
)

// ErrNullKey reports a record without a key where one is needed.
var ErrNullKey = errors.New("key is null")

// Error is an error with a class and the number of attempts made.
type Error struct {
	Class    string
	Attempts int // 0 counts as 1
	Err      error
}

// WithClass gives err a class.
func WithClass(class string, err error) error { return &Error{Class: class, Err: err} }

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its class.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of err, or fallback when it has none.
func ClassOf(err error, fallback string) string {
	var e *Error
	if errors.As(err, &e) && e.Class != "" {
		return e.Class
	}
	return fallback
}

// attempts returns how often the failed work was tried.
func attempts(err error) int {
	var e *Error
	if errors.As(err, &e) && e.Attempts > 1 {
		return e.Attempts
	}
	return 1
}

// StopError is why a task stopped: one record failed and the policy says stop. Nothing after the
// last commit is kept, so the record is read again when the pipeline starts.
type StopError struct {
	Step, Class string
	Topic       string // of the record as it was read; "" for the result of an aggregate
	Partition   int32
	Offset      int64
	Err         error
}

// Error implements error.
func (e *StopError) Error() string {
	if e.Topic == "" {
		return fmt.Sprintf("step %s: %v (class %s)", e.Step, e.Err, e.Class)
	}
	return fmt.Sprintf("step %s, record %s-%d@%d: %v (class %s)",
		e.Step, e.Topic, e.Partition, e.Offset, e.Err, e.Class)
}

// Unwrap returns the cause.
func (e *StopError) Unwrap() error { return e.Err }
