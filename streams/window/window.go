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

// Windows is a tumbling or hopping series of windows. All fields are ms.
type Windows struct {
	Size    int64 // length of a window; > 0
	Advance int64 // distance of two starts; 0 < Advance <= Size; Size makes windows tumbling
	Offset  int64 // shifts all starts; any value
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

// Validate reports a definition that makes no sense. The zero value is valid and means no windows.
func (w Windows) Validate() error {
	switch {
	case w == Windows{}:
		return nil
	case w.Size <= 0:
		return fmt.Errorf("%w: size is %d ms, need at least 1", ErrInvalid, w.Size)
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

// addClamped returns a+b, at most the largest finite stream time; b >= 0.
func addClamped(a, b int64) int64 {
	if a > operator.EndOfTime-1-b {
		return operator.EndOfTime - 1
	}
	return a + b
}
