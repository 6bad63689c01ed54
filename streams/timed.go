package streams

import (
	"time"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// The vocabulary of timers.
type (
	// Timer is a timer of a key, by name.
	Timer = operator.Timer
	// TimedContext is what a step with timers can do.
	TimedContext = operator.TimedContext
)

// The clocks of timers.
const (
	// EventClock is event time: the same input fires the same timers at the same place.
	EventClock = operator.EventClock
	// WallClock is that of the machine; what it fires is not the same in every run.
	WallClock = operator.WallClock
)

// TimedOptions describe a step with timers.
type TimedOptions struct {
	// Each gets every record, behind the timers that are due at its time.
	Each func(t *TimedContext, rec *Record) error
	// OnTimer gets every timer that is due.
	OnTimer func(t *TimedContext, timer Timer) error
	// WallClock must be set for timers of the machine's clock.
	WallClock bool
	// OnError overrides the policy of the pipeline.
	OnError *ErrorPolicy
}

// Timed adds a step that sets timers by key and name, of event time or of the machine's clock. They
// are kept with the state of the task.
func (s *Stream) Timed(id string, o TimedOptions) *Stream {
	s.b.Process(id, []string{s.id}, topology.ProcessOptions{Kind: "timed", OnError: o.OnError,
		Stores: operator.TimerStores(id), WallClock: o.WallClock,
		New: operator.Timed(operator.TimedOptions{Store: id, Each: o.Each, OnTimer: o.OnTimer})})
	return s.next(id)
}

// PunctuateWall calls fn when the machine's clock passes a multiple of every. Records pass on; what
// fn emits depends on how fast they came, so the pipeline is not deterministic any more.
func (s *Stream) PunctuateWall(id string, every time.Duration,
	fn func(ctx *operator.Context, at int64, emit func(Record)) error) *Stream {
	s.b.Process(id, []string{s.id}, topology.ProcessOptions{Kind: "punctuate_wall",
		New: operator.PunctuateWall(every, fn), WallClock: true})
	return s.next(id)
}

// Punctuate calls fn when event time passes a multiple of every. Records pass on.
func (s *Stream) Punctuate(id string, every time.Duration,
	fn func(ctx *operator.Context, at int64, emit func(Record)) error) *Stream {
	s.b.Process(id, []string{s.id}, topology.ProcessOptions{Kind: "punctuate",
		New: operator.Punctuate(every, fn)})
	return s.next(id)
}
