package operator

import (
	"errors"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/streams/state"
)

// Reporter receives what a step reports about single records. The task implements it.
type Reporter interface {
	// DeadLetter takes a record that failed. The record is only valid during the call.
	DeadLetter(rec *Record, d DeadLetter)
	// LateRecord takes a late record that goes to a topic of its own.
	LateRecord(rec *Record, topic string, late LateReport)
}

// LateReport describes one late record.
type LateReport struct {
	Step string
	// First and Last are the earliest and the latest window that were closed to the record. They
	// are equal but for hopping windows.
	First, Last Window
	// StreamTime is the time of the task when the record was processed; Grace that of the step.
	StreamTime, Grace int64
	// Partly tells that other windows still took the record.
	Partly bool
	// Timestamp is that of the record; Topic, Partition and Offset say where it comes from.
	Timestamp int64
	Topic     string
	Partition int32
	Offset    int64
}

// String returns the report as one line, with times in RFC 3339.
func (l LateReport) String() string {
	span := func(w Window) string { return w.text(showTime, ", ") }
	closed := "window " + span(l.First)
	if l.First != l.Last {
		closed = "windows " + span(l.First) + " to " + span(l.Last)
	}
	partly := ""
	if l.Partly {
		partly = "; other windows took it"
	}
	return fmt.Sprintf("record of %s is late: %s closed, stream time is %s, grace %s%s",
		showTime(l.Timestamp), closed, showTime(l.StreamTime),
		time.Duration(l.Grace)*time.Millisecond, partly)
}

// showTime prints ms since 1970 for people.
func showTime(ms int64) string {
	if ms == EndOfTime {
		return "the end of input"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)
}

// ContextOptions is what a task gives a step.
type ContextOptions struct {
	Step     string
	Stores   state.Stores
	OnError  ErrorPolicy
	Late     LatePolicy
	Reporter Reporter
	Stats    *Stats
	Outputs  []string // names of the step's outputs; none means one without a name
	// StreamTime is the time of the task when the step is made: what was due then was emitted.
	StreamTime int64
	// EventTime is the time to which the last record of the task had moved it, at most StreamTime.
	EventTime int64
}

// Context is what a step sees of its task. It is valid for the life of the task.
type Context struct {
	opts ContextOptions
	outs []*Batch
}

// NewContext makes the context of one step.
func NewContext(opts ContextOptions) *Context {
	if opts.Stats == nil {
		opts.Stats = &Stats{}
	}
	return &Context{opts: opts}
}

// Step returns the id of the step.
func (c *Context) Step() string { return c.opts.Step }

// Store returns a key-value store the step has asked for. Keep it: this costs a map lookup.
func (c *Context) Store(name string) state.Store { return c.opts.Stores.Store(name) }

// Windows returns a windowed store the step has asked for. Keep it: this costs a map lookup.
func (c *Context) Windows(name string) state.Windows { return c.opts.Stores.Windows(name) }

// Stats returns the counters of the step.
func (c *Context) Stats() *Stats { return c.opts.Stats }

// StartTime returns the stream time at which the step was made or restored: everything due by
// then has been emitted.
func (c *Context) StartTime() int64 { return c.opts.StreamTime }

// StartEventTime returns the stream time of the last record before the step was made or restored;
// watermarks may have moved time further since.
func (c *Context) StartEventTime() int64 { return c.opts.EventTime }

// SetOutputs tells where the named outputs of this run go; called by the task.
func (c *Context) SetOutputs(outs []*Batch) { c.outs = outs }

// Output returns the batch of output i of a step that has several, for appending.
func (c *Context) Output(i int) *Batch { return c.outs[i] }

// Fail reports that rec could not be processed and must not be passed on. It returns nil when the
// policy of the step is to go on; any other result must be returned from Process at once.
// The class of err, if it has one (WithClass), wins over class.
func (c *Context) Fail(rec *Record, class string, err error) error {
	class = ClassOf(err, class)
	c.opts.Stats.Errors.Add(1)
	switch c.opts.OnError.ActionFor(class) {
	case Drop:
		c.opts.Stats.Dropped.Add(1)
		return nil
	case ToDeadLetter:
		return c.deadLetter(rec, class, err.Error(), attempts(err))
	}
	o := OriginOf(rec)
	return &StopError{Step: c.opts.Step, Class: class, Topic: o.Topic, Partition: o.Partition,
		Offset: o.Offset, Err: err}
}

// Late reports that rec came after windows were closed to it. The step fills First, Last, Grace
// and Partly. The result is as of Fail.
func (c *Context) Late(rec *Record, late LateReport) error {
	late.Step, late.StreamTime, late.Timestamp = c.opts.Step, rec.StreamTime, rec.Timestamp
	o := OriginOf(rec)
	late.Topic, late.Partition, late.Offset = o.Topic, o.Partition, o.Offset
	c.opts.Stats.Late.Add(1)
	c.opts.Stats.lastLate.Store(&late)
	action := c.opts.Late.Action
	if action == LateDefault {
		action = LateDrop
		if c.opts.OnError.DeadLetterTopic != "" {
			action = LateDeadLetter
		}
	}
	switch action {
	case LateDeadLetter:
		return c.deadLetter(rec, ClassLate, late.String(), 1)
	case LateSide:
		c.opts.Reporter.LateRecord(rec, c.opts.Late.Topic, late)
	}
	return nil
}

// deadLetter hands rec to the task.
func (c *Context) deadLetter(rec *Record, class, message string, attempts int) error {
	if c.opts.OnError.DeadLetterTopic == "" {
		o := OriginOf(rec)
		return &StopError{Step: c.opts.Step, Class: class, Topic: o.Topic, Partition: o.Partition,
			Offset: o.Offset,
			Err:    fmt.Errorf("no dead-letter topic for: %w", errors.New(message))}
	}
	c.opts.Stats.DeadLetters.Add(1)
	c.opts.Reporter.DeadLetter(rec, DeadLetter{
		Topic: c.opts.OnError.DeadLetterTopic, Step: c.opts.Step,
		Class: class, Message: message, Attempts: attempts,
	})
	return nil
}
