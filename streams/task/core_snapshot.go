package task

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/streams/operator"
)

// ErrSnapshot reports a snapshot that does not fit the task.
var ErrSnapshot = errors.New("snapshot does not fit the task")

// snapshotVersion is the format written by this code.
const snapshotVersion = 1

// snapshot is what a restart needs beside the stores. Its JSON is kept in the commit record.
type snapshot struct {
	Version int    `json:"v"`
	Writer  string `json:"writer"`
	Time    int64  `json:"s"`
	Last    int64  `json:"last"` // last finite S
	// Event is S at the last event; commits of before it was kept do not have it.
	Event  *int64            `json:"event,omitempty"`
	Events int64             `json:"events"`
	Seq    int64             `json:"seq"`
	Inputs []inputSnapshot   `json:"inputs"`
	Told   []toldSnapshot    `json:"told,omitempty"`
	Steps  []operator.Counts `json:"steps,omitempty"`
}

// inputSnapshot is one topic partition.
type inputSnapshot struct {
	Topic     string         `json:"t"`
	Partition int32          `json:"p"`
	Offset    int64          `json:"o"`
	Read      int64          `json:"read"`
	Ready     bool           `json:"ready,omitempty"`
	Lanes     []laneSnapshot `json:"lanes,omitempty"`
}

// laneSnapshot is one lane behind the last processed record.
type laneSnapshot struct {
	Writer string `json:"w,omitempty"`
	Max    int64  `json:"max"`
	Seq    int64  `json:"seq,omitempty"`
	Eff    int64  `json:"eff"`
	Offset int64  `json:"at"`
	Idle   bool   `json:"idle,omitempty"`
}

// toldSnapshot is what a repartition topic was told last.
type toldSnapshot struct {
	Topic string `json:"t"`
	told
}

// Snapshot describes the Core after the last Run and Watermarks: to be stored in one commit with
// the stores and after the outputs.
func (c *Core) Snapshot() []byte {
	s := snapshot{Version: snapshotVersion, Writer: c.writer, Time: c.now,
		Last: c.lastTime, Event: &c.eventTime, Events: c.events, Seq: c.out.seq}
	for _, in := range c.inputs {
		x := inputSnapshot{Topic: in.from.Topic, Partition: in.from.Partition,
			Offset: in.position(), Read: in.next, Ready: in.ready}
		for _, l := range in.lanes {
			x.Read = max(x.Read, l.rereadTo)
			x.Lanes = append(x.Lanes, l.snapshot())
		}
		s.Inputs = append(s.Inputs, x)
	}
	for i := range c.nodes {
		if n := c.nodes[i]; n.spec.Sink != nil && n.spec.Sink.Repartition {
			s.Told = append(s.Told, toldSnapshot{n.spec.Sink.Topic, n.told})
		}
	}
	for _, x := range c.stats {
		if counts := x.Counts(x.Step); counts != (operator.Counts{Step: x.Step}) {
			s.Steps = append(s.Steps, counts)
		}
	}
	b, err := json.Marshal(s)
	if err != nil { // only numbers, booleans and strings are in it
		panic("invariant: a snapshot can be marshalled: " + err.Error())
	}
	return b
}

// snapshot returns the lane as a reader at its first unprocessed record has to know it. What was
// read behind that record is read again.
func (l *lane) snapshot() laneSnapshot {
	m := l.processed
	// What is not processed is read again: only behind it the lane is idle.
	idle := l.idle && l.pending() == 0
	switch {
	case l.in.byWriter == nil:
		m.max = l.clock.Max
		if l.next.ok {
			m.max = l.next.before
		}
		if s := l.sorted.oldest(); s != nil {
			m.max = s.max
		}
	case l.pending() == 0:
		m.max, m.seq = l.w, l.seq
	}
	return laneSnapshot{Writer: l.writer, Max: m.max, Seq: m.seq, Eff: m.eff, Offset: m.offset,
		Idle: idle}
}

// restore sets the Core to a snapshot. Inputs the snapshot does not know start at their beginning;
// inputs it knows and the topology does not are forgotten.
func (c *Core) restore(b []byte) error {
	var s snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if s.Version != snapshotVersion {
		return fmt.Errorf("%w: format %d, this program reads %d", ErrSnapshot,
			s.Version, snapshotVersion)
	}
	if s.Writer != c.writer {
		return fmt.Errorf("%w: it belongs to %q", ErrSnapshot, s.Writer)
	}
	c.now = s.Time
	c.time.Store(c.now)
	c.lastTime, c.events, c.out.seq = s.Last, s.Events, s.Seq
	if c.eventTime = s.Time; s.Event != nil {
		c.eventTime = *s.Event
	}
	known := map[*coreInput]bool{}
	for _, x := range s.Inputs {
		in := c.byName[inputName{x.Topic, x.Partition}]
		if in == nil {
			continue
		}
		known[in] = true
		in.next = x.Offset
		in.ready = in.ready || x.Ready
		for _, y := range x.Lanes {
			for _, l := range in.lanes {
				if l.writer == y.Writer {
					l.restore(y)
					l.rereadTo = x.Read
				}
			}
		}
	}
	for _, in := range c.inputs {
		if in.source != nil && in.byWriter == nil && !known[in] {
			at := s.Time
			if at == operator.EndOfTime {
				at = s.Last
			}
			in.beginAt(at)
		}
	}
	c.counts = s.Steps
	c.out.told = map[string]told{}
	for _, t := range s.Told {
		t.Ended = false // lanes have no end before this run says so, and neither have their readers
		c.out.told[t.Topic] = t.told
	}
	return nil
}

// beginAt gives an input that is new to the task the time the task has come to: time does not go
// back for it.
func (in *coreInput) beginAt(t int64) {
	if t == operator.NoTime {
		return
	}
	for _, l := range in.lanes {
		l.clock.Max = t + l.clock.Disorder
		l.processed.max = l.clock.Max
	}
}

func (l *lane) restore(s laneSnapshot) {
	l.processed = mark{max: s.Max, seq: s.Seq, eff: s.Eff, offset: s.Offset}
	l.ended, l.idle = false, s.Idle
	if l.in.byWriter != nil {
		l.w, l.seq = s.Max, s.Seq
		if s.Max != operator.EndOfTime { // an end is that of one run
			l.floor = s.Max
		}
		return
	}
	l.clock.Max = s.Max
}
