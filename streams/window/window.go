package window

import (
	"errors"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/streams/operator"
)

// ErrInvalid reports a window definition that makes no sense.
var ErrInvalid = errors.New("invalid window")

// maxOverlap bounds how many windows one timestamp may fall into; each costs a row per key.
const maxOverlap = 10_000

// maxSize bounds sizes, so that times computed from them fit 64 bits: about 9 million years.
const maxSize = 1 << 48

// Kind is a way to cut time.
type Kind int8

// Kinds of windows.
const (
	// Aligned windows follow the clock: tumbling or hopping, [start, end).
	Aligned Kind = iota
	// Session windows hold records that follow each other within a gap, per key.
	Session
	// Sliding windows hold the records of a key within a span, one begun or ended by each record.
	Sliding
	// Count windows hold a number of records of a key.
	Count
)

// Windows is how the records of a key are cut. The zero value means no windows.
type Windows struct {
	Kind Kind
	// Size is the length of an aligned window, the gap of a session and the span of a sliding
	// window in ms, the number of records of a count window; > 0.
	Size int64
	// Advance is the distance of two starts of aligned windows in ms; 0 < Advance <= Size; Size
	// makes windows tumbling.
	Advance int64
	Offset  int64 // shifts all starts of aligned windows, in ms; any value
}

// Tumbling returns windows that follow each other without gap or overlap.
func Tumbling(size time.Duration) Windows { return Hopping(size, size) }

// Hopping returns windows of a size that start every advance. Both count in whole ms; less than
// that is not valid.
func Hopping(size, advance time.Duration) Windows {
	w := Windows{Size: size.Milliseconds(), Advance: advance.Milliseconds()}
	if w.Advance == 0 {
		w.Advance = -1 // the zero value would mean no windows
	}
	return w
}

// Sessions returns windows of records that are at most gap apart.
func Sessions(gap time.Duration) Windows {
	return Windows{Kind: Session, Size: gap.Milliseconds()}
}

// SlidingBy returns windows whose first and last record are at most span apart.
func SlidingBy(span time.Duration) Windows {
	return Windows{Kind: Sliding, Size: span.Milliseconds()}
}

// Counted returns windows of n records.
func Counted(n int64) Windows { return Windows{Kind: Count, Size: n} }

// Validate reports a definition that makes no sense. The zero value is valid and means no windows.
func (w Windows) Validate() error {
	switch {
	case w == Windows{}:
		return nil
	case w.Kind < Aligned || w.Kind > Count:
		return fmt.Errorf("%w: unknown kind %d", ErrInvalid, w.Kind)
	case w.Size <= 0 || w.Size > maxSize:
		what := [...]string{"size is %d ms", "gap is %d ms", "span is %d ms", "count is %d"}[w.Kind]
		return fmt.Errorf("%w: "+what+", need 1 to %d", ErrInvalid, w.Size, int64(maxSize))
	case w.Kind != Aligned && (w.Advance != 0 || w.Offset != 0):
		return fmt.Errorf("%w: only tumbling and hopping windows have an advance or an offset",
			ErrInvalid)
	case w.Kind != Aligned:
		return nil
	case w.Advance <= 0 || w.Advance > w.Size:
		return fmt.Errorf("%w: advance is %d ms, need 1 to size (%d)",
			ErrInvalid, w.Advance, w.Size)
	case w.Size/w.Advance > maxOverlap:
		return fmt.Errorf("%w: %d windows overlap, at most %d may",
			ErrInvalid, w.Size/w.Advance, maxOverlap)
	}
	return nil
}

// Starts returns the first and the last start of the windows that contain ts; those between are
// Advance apart. A timestamp from 1970 on is in no window that starts before 1970, unless that is
// its only one: the latest window of a timestamp always exists.
func (w Windows) Starts(ts int64) (first, last int64) {
	last = ts - floorMod(ts-w.Offset, w.Advance)
	first = last - (w.Size-1-(ts-last))/w.Advance*w.Advance
	if first < 0 && last >= 0 {
		first = floorMod(last, w.Advance)
	}
	return first, last
}

// At returns the window that starts at start.
func (w Windows) At(start int64) operator.Window {
	return operator.Window{Start: start, End: start + w.Size}
}

// CloseTime returns the stream time from which the window that starts at start is closed.
func (w Windows) CloseTime(start, grace int64) int64 {
	return addClamped(start+w.Size, grace)
}

// Closed reports whether the window that starts at start is closed at stream time s.
func (w Windows) Closed(start, grace, s int64) bool { return s >= w.CloseTime(start, grace) }

// floorMod returns the remainder of a/b that has the sign of b; b > 0.
func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// DueAfter returns the stream time at which a session or a sliding window is closed: the first one
// above end + wait. It is a finite time.
func DueAfter(end, wait int64) int64 { return addClamped(addClamped(end, wait), 1) }

// addClamped returns a+b, at most the largest finite stream time; b >= 0.
func addClamped(a, b int64) int64 {
	if a > operator.EndOfTime-1-b {
		return operator.EndOfTime - 1
	}
	return a + b
}
