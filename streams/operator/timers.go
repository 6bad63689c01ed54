package operator

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/state"
)

// Timers are the event-time timers of a step: rows of a Windowed store, so that they survive a
// restart and move with their task. A row is (time, key); a bucket holds the timers of a span of
// time and is dropped when it is over.
type Timers struct {
	rows  state.Windows
	width int64
	// starts of the buckets with timers, ascending.
	starts []int64
	// next is a time before which no timer is due.
	next int64
	key  []byte
}

// NewTimers returns the timers kept in a store. width is the span of a bucket in ms: about as far
// as timers are set ahead, or less.
func NewTimers(rows state.Windows, width int64) (*Timers, error) {
	t := &Timers{rows: rows, width: max(1, width), next: NoTime}
	var err error
	if t.starts, err = rows.Starts(); err != nil {
		return nil, fmt.Errorf("list timers: %w", err)
	}
	return t, nil
}

func (t *Timers) bucket(at int64) int64 {
	m := at % t.width
	if m < 0 {
		m += t.width
	}
	return at - m
}

func (t *Timers) row(at int64, key []byte) []byte {
	t.key = append(state.AppendTime(t.key[:0], at), key...)
	return t.key
}

// Set makes (at, key) due once when stream time reaches at; again is the same timer.
func (t *Timers) Set(at int64, key []byte) error {
	start := t.bucket(at)
	if i, ok := slices.BinarySearch(t.starts, start); !ok {
		t.starts = slices.Insert(t.starts, i, start)
	}
	t.next = min(t.next, at)
	if err := t.rows.Window(start).Put(t.row(at, key), []byte{1}); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	return nil
}

// Delete removes a timer, if it is set.
func (t *Timers) Delete(at int64, key []byte) error {
	start := t.bucket(at)
	if _, ok := slices.BinarySearch(t.starts, start); !ok {
		return nil
	}
	if err := t.rows.Window(start).Delete(t.row(at, key)); err != nil {
		return fmt.Errorf("delete timer: %w", err)
	}
	return nil
}

// Fire calls fn with every timer due at stream time s, ordered by time and key. Timers that fn
// sets for s or before are due in the same call.
func (t *Timers) Fire(s int64, fn func(at int64, key []byte) error) error {
	for t.next <= s {
		at, key, ok, err := t.first()
		switch {
		case err != nil:
			return err
		case !ok:
			t.next = EndOfTime
			return nil
		case at > s:
			t.next = at
			return nil
		}
		if err := t.Delete(at, key); err != nil {
			return err
		}
		if err := fn(at, key); err != nil {
			return err
		}
	}
	return nil
}

// first returns the timer that is due first. Buckets without any are dropped.
func (t *Timers) first() (at int64, key []byte, ok bool, err error) {
	for len(t.starts) > 0 {
		err = t.rows.Window(t.starts[0]).Scan(nil, nil, func(row, _ []byte) error {
			at, key, ok = state.CutTime(slices.Clone(row))
			return state.ErrStop
		})
		if err != nil || ok {
			return at, key, ok, err
		}
		if err := t.rows.Drop(t.starts[0]); err != nil {
			return 0, nil, false, fmt.Errorf("drop timers: %w", err)
		}
		t.starts = t.starts[1:]
	}
	return 0, nil, false, nil
}
