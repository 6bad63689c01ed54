package eventtime

import (
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/streams/operator"
)

// ErrNegative reports an event time before 1970, which includes a record without a timestamp.
var ErrNegative = errors.New("event time is negative or missing")

// ErrTooLarge reports an event time after the year 9999, which usually is one in another unit.
var ErrTooLarge = errors.New("event time is after the year 9999; is it in milliseconds?")

// Largest is the largest event time taken: 9999-12-31T23:59:59.999Z.
const Largest int64 = 253_402_300_799_999

// Extractor returns the event time of a record in ms. It may decode the value into rec.Doc.
type Extractor func(rec *operator.Record) (int64, error)

// FromRecord is the Extractor used where none is given: the timestamp the record was written with.
func FromRecord(rec *operator.Record) (int64, error) { return rec.Timestamp, nil }

// BadTimestamp says what becomes of a record whose event time cannot be told.
type BadTimestamp int8

// Choices for bad timestamps.
const (
	// BadFails treats the record as failed with class event_time: to the dead letters, or as the
	// policy of the source says.
	BadFails BadTimestamp = iota
	// BadSkip counts the record as dropped.
	BadSkip
	// BadPartitionTime takes the largest event time seen in the partition; a record before any
	// other has none and fails.
	BadPartitionTime
)

// Extract returns the event time of rec or an error of class event_time.
func Extract(x Extractor, rec *operator.Record) (int64, error) {
	ts, err := x(rec)
	if err == nil && ts < 0 {
		err = fmt.Errorf("%w: %d", ErrNegative, ts)
	}
	if err == nil && ts > Largest {
		err = fmt.Errorf("%w: %d", ErrTooLarge, ts)
	}
	if err != nil {
		return 0, operator.WithClass(operator.ClassOf(err, operator.ClassTimestamp), err)
	}
	return ts, nil
}

// Clock is the time of one partition.
type Clock struct {
	// Max is the largest event time seen, NoTime before any.
	Max int64
	// Disorder is how far, in ms, a record may be behind Max without being below W.
	Disorder int64
}

// NewClock returns the clock of a partition nothing was read from.
func NewClock(disorder int64) Clock { return Clock{Max: operator.NoTime, Disorder: disorder} }

// W returns the time of the partition.
func (c *Clock) W() int64 {
	if c.Max == operator.NoTime || c.Max == operator.EndOfTime {
		return c.Max
	}
	return c.Max - c.Disorder
}

// Observe takes the event time of the next record and returns where the record is merged.
func (c *Clock) Observe(ts int64) (eff int64) {
	c.Max = max(c.Max, ts)
	return max(ts, c.W())
}
