package aggregate

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// changes are the results that changed since they were last emitted, for Every. Rows:
//
//	end of the window i64 | start i64 | key  ->  1 byte: 1 the old result is to be taken back
//	                                             of sessions: the state that was told; rows of
//	                                             older files are without
type changes struct {
	rows  state.Store
	every int64 // ms
	key   []byte
	keys  [][]byte // scratch of take
}

// next returns the first multiple of every that stream time passes between s and to. Nothing has
// changed when it passes those behind it, so they count as one with it, whether time goes there in
// one move or in many. The first time of all passes none; at the end everything comes out.
func (c *changes) next(s, to int64) (at int64, ok bool) {
	if s == operator.NoTime {
		return 0, false
	}
	at = s - floorMod(s, c.every) + c.every
	return at, at <= to || to == operator.EndOfTime
}

func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

func (c *changes) at(w operator.Window, key []byte) []byte {
	c.key = state.AppendTime(state.AppendTime(c.key[:0], w.End), w.Start)
	c.key = append(c.key, key...)
	return c.key
}

// mark remembers that a result changed; told is the state of which it was told, nil if it was not
// or nobody will ask.
func (c *changes) mark(w operator.Window, key, told []byte) error {
	at := c.at(w, key)
	if _, ok, err := c.rows.Get(at); ok || err != nil {
		return err
	}
	return c.rows.Put(at, append([]byte{0}, told...))
}

// gone remembers that there is no such result any more. emitted tells whether anybody knows it; it
// is of state told, unless it changed since. What was to be taken back before still is.
func (c *changes) gone(w operator.Window, key []byte, emitted bool, told []byte) error {
	at := c.at(w, key)
	v, ok, err := c.rows.Get(at)
	if err != nil {
		return err
	}
	if back := ok && len(v) > 0 && v[0] == 1; !emitted && !back {
		return c.rows.Delete(at)
	}
	if ok && len(v) > 0 {
		told = v[1:]
	}
	return c.rows.Put(at, append([]byte{1}, told...))
}

// pop forgets that a result changed, and reports whether it had, and of what it was told before.
func (c *changes) pop(w operator.Window, key []byte) (changed bool, told []byte, err error) {
	at := c.at(w, key)
	v, ok, err := c.rows.Get(at)
	if err != nil || !ok {
		return false, nil, err
	}
	if len(v) > 1 {
		told = slices.Clone(v[1:])
	}
	return true, told, c.rows.Delete(at)
}

// changesOf returns the keys between which the changes of one window are.
func changesOf(w operator.Window) (from, to []byte) {
	from = state.AppendTime(state.AppendTime(nil, w.End), w.Start)
	return from, state.AppendTime(state.AppendTime(nil, w.End), w.Start+1)
}

// take removes the changes between two keys, nil being none, and calls fn with each.
func (c *changes) take(from, to []byte,
	fn func(w operator.Window, key []byte, takeBack bool, told []byte) error) error {
	c.keys = c.keys[:0]
	err := c.rows.Scan(from, to, func(key, _ []byte) error {
		c.keys = append(c.keys, slices.Clone(key))
		return nil
	})
	if err != nil {
		return fmt.Errorf("scan changed results: %w", err)
	}
	for _, k := range c.keys {
		v, ok, err := c.rows.Get(k)
		if err != nil || !ok {
			return fmt.Errorf("get changed result: %w", err)
		}
		back, told := len(v) > 0 && v[0] == 1, []byte(nil)
		if len(v) > 1 {
			told = slices.Clone(v[1:])
		}
		if err := c.rows.Delete(k); err != nil {
			return fmt.Errorf("forget changed result: %w", err)
		}
		end, rest, _ := state.CutTime(k)
		start, key, _ := state.CutTime(rest)
		if err := fn(operator.Window{Start: start, End: end}, key, back, told); err != nil {
			return err
		}
	}
	return nil
}

// timed is an aggregate whose spans end at times of their own.
type timed interface {
	// closeDue handles what is due up to s, emitChanged gives what changed since it was told.
	closeDue(ctx *operator.Context, s int64, in, out *operator.Batch) error
	emitChanged(ctx *operator.Context, at int64, in, out *operator.Batch) error
}

// advance moves stream time: what closes before the last multiple of every that time passes comes
// out before what changed up to there.
func advance(ctx *operator.Context, x timed, c *changes, from, to int64,
	in, out *operator.Batch) error {
	if c != nil {
		if at, ok := c.next(from, to); ok {
			if err := x.closeDue(ctx, at, in, out); err != nil {
				return err
			}
			if err := x.emitChanged(ctx, at, in, out); err != nil {
				return err
			}
		}
	}
	return x.closeDue(ctx, to, in, out)
}
