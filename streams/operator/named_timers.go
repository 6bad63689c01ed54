package operator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/state"
)

// Clock says what makes a timer due.
type Clock byte

// The clocks.
const (
	// EventClock is stream time: a timer fires at the same place of the input in every run.
	EventClock Clock = 'e'
	// WallClock is that of the machine. What it makes due depends on how fast the input came, so a
	// replay may differ.
	WallClock Clock = 'w'
)

// Timer is a timer of a key.
type Timer struct {
	Clock Clock
	Key   []byte
	// Name tells the timers of a key apart: to set one again is to move it.
	Name string
	// At is when it is due, in ms.
	At int64
	// Data is what the step wants to know then.
	Data []byte
}

// NamedTimers are the timers of a step by key and name. They are rows of its stores (TimerStores),
// so they are committed with what it gives out, and survive a crash and a move of their task.
type NamedTimers struct {
	due   map[Clock]*Timers
	names state.Store // (clock, key, name) -> at, data
	id    []byte
}

// timerWidth is the span of a bucket of timers: 10 minutes.
const timerWidth = 10 * 60 * 1000

// ErrTimer reports a timer that cannot be kept.
var ErrTimer = errors.New("timer cannot be kept")

// TimerStores are what NamedTimers of a store need.
func TimerStores(store string) []StoreSpec {
	return []StoreSpec{
		{Name: store + "-timers", Kind: KeyValue, Format: "timers 1"},
		{Name: store + "-due", Kind: Windowed, Format: "timers due 1"},
		{Name: store + "-due-wall", Kind: Windowed, Format: "timers due 1"},
	}
}

// NewNamedTimers returns the timers kept in a store.
func NewNamedTimers(ctx *Context, store string) (*NamedTimers, error) {
	event, err := NewTimers(ctx.Windows(store+"-due"), timerWidth)
	if err != nil {
		return nil, err
	}
	wall, err := NewTimers(ctx.Windows(store+"-due-wall"), timerWidth)
	if err != nil {
		return nil, err
	}
	return &NamedTimers{due: map[Clock]*Timers{EventClock: event, WallClock: wall},
		names: ctx.Store(store + "-timers")}, nil
}

// row is the key of a timer in names; without its first byte it is that in due.
func (n *NamedTimers) row(clock Clock, key []byte, name string) ([]byte, error) {
	n.id = append(state.AppendEscaped(append(n.id[:0], byte(clock)), key), name...)
	if len(n.id)+8 > state.MaxKey {
		return nil, fmt.Errorf("%w: key and name of %q take %d bytes, at most %d are kept", ErrTimer,
			name, len(n.id), state.MaxKey-8)
	}
	return n.id, nil
}

// Set sets a timer, or moves the one of its key and name.
func (n *NamedTimers) Set(t Timer) error {
	if n.due[t.Clock] == nil {
		return fmt.Errorf("%w: no clock %q", ErrTimer, t.Clock)
	}
	if err := n.Delete(t.Clock, t.Key, t.Name); err != nil {
		return err
	}
	row, err := n.row(t.Clock, t.Key, t.Name)
	if err != nil {
		return err
	}
	value := append(binary.BigEndian.AppendUint64(nil, uint64(t.At)), t.Data...)
	if err := n.names.Put(row, value); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	return n.due[t.Clock].Set(t.At, row[1:])
}

// Delete takes a timer back, if it is set.
func (n *NamedTimers) Delete(clock Clock, key []byte, name string) error {
	row, err := n.row(clock, key, name)
	if err != nil {
		return err
	}
	value, ok, err := n.names.Get(row)
	if err != nil || !ok || len(value) < 8 {
		return err
	}
	at := int64(binary.BigEndian.Uint64(value))
	if err := n.names.Delete(row); err != nil {
		return fmt.Errorf("delete timer: %w", err)
	}
	return n.due[clock].Delete(at, row[1:])
}

// Fire takes every timer of a clock that is due at a time, and calls fn with it, by time, key and
// name. Timers that fn sets for that time or before are due in the same call.
func (n *NamedTimers) Fire(clock Clock, now int64, fn func(Timer) error) error {
	return n.due[clock].Fire(now, func(at int64, id []byte) error {
		key, name, ok := state.CutEscaped(id)
		row := append([]byte{byte(clock)}, id...)
		if !ok {
			return fmt.Errorf("%w: row %x of its store is none", ErrTimer, id)
		}
		value, ok, err := n.names.Get(row)
		if err != nil || !ok || len(value) < 8 {
			return err
		}
		t := Timer{Clock: clock, Key: slices.Clone(key), Name: string(name), At: at,
			Data: slices.Clone(value[8:])}
		if err := n.names.Delete(row); err != nil {
			return fmt.Errorf("fire timer: %w", err)
		}
		return fn(t)
	})
}
