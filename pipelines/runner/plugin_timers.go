package runner

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/pluginpb"
	"github.com/millstream-io/millstream/streams/operator"
)

// timedPluginStep passes the batches of one task to an operator with timers, which are kept here,
// with the state of the task (pluginpb/timers.go says what goes over the wire).
type timedPluginStep struct {
	pluginStep
	store  string
	timers *operator.NamedTimers
	place  operator.Place
	// sent says what each record of batch is: the record of the task, or a timer.
	sent  []sentItem
	bytes int
	// now is the stream time of the last record that was sent.
	now int64
}

// sentItem is one thing that a plugin was sent.
type sentItem struct {
	rec   *operator.Record // nil for others
	timer *operator.Timer  // nil for others
}

// timedBatch and timedBytes bound what goes to a plugin at once: it fits in one frame, which is
// sent again as a whole when the plugin crashes, so that timers set in it are set once.
const (
	timedBatch = 900
	timedBytes = 512 << 10
)

// full tells that what was added has to be sent.
func (s *timedPluginStep) full() bool { return len(s.sent) >= timedBatch || s.bytes >= timedBytes }

// Process implements operator.Operator: records behind the timers that are due at their time.
func (s *timedPluginStep) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if s.timers == nil {
		timers, err := operator.NewNamedTimers(ctx, s.store)
		if err != nil {
			return err
		}
		s.timers, s.now = timers, ctx.StartTime()
	}
	s.place.Note(in)
	send := func(t operator.Timer) error {
		s.add(sentItem{timer: &t})
		if s.full() {
			return s.exchange(ctx, in, out)
		}
		return nil
	}
	for i := range in.Records {
		rec := &in.Records[i]
		if err := s.timers.Fire(operator.EventClock, rec.StreamTime, send); err != nil {
			return err
		}
		s.now = rec.StreamTime
		s.add(sentItem{rec: rec})
		if s.full() {
			if err := s.exchange(ctx, in, out); err != nil {
				return err
			}
		}
	}
	// Timers that the batch itself sets are due in it, too: the plugin fires those up to now. What it
	// sets then for an earlier time fires in the next round.
	for {
		s.now = in.StreamTime
		if err := s.timers.Fire(operator.EventClock, in.StreamTime, send); err != nil {
			return err
		}
		if len(s.sent) == 0 {
			break
		}
		if err := s.exchange(ctx, in, out); err != nil {
			return err
		}
	}
	if in.Wall == 0 {
		return nil
	}
	if err := s.timers.Fire(operator.WallClock, in.Wall, send); err != nil {
		return err
	}
	if len(s.sent) == 0 {
		return nil
	}
	return s.exchange(ctx, in, out)
}

// add appends one thing to what is sent next.
func (s *timedPluginStep) add(item sentItem) {
	s.sent = append(s.sent, item)
	var r host.Record
	if item.rec != nil {
		r = hostRecord(item.rec)
		r.Headers = append(withoutTimerHeaders(r.Headers), record.Header{
			Key: pluginpb.HeaderTimerTime, Value: strconv.AppendInt(nil, item.rec.StreamTime, 10)})
	} else {
		t := item.timer
		r.Key, r.Value, r.Timestamp = t.Key, t.Data, t.At
		r.Headers = []record.Header{{Key: pluginpb.HeaderTimerFired, Value: []byte(t.Name)},
			{Key: pluginpb.HeaderTimerClock, Value: []byte(clockName(t.Clock))}}
	}
	s.batch = append(s.batch, r)
	s.bytes += pluginpb.SizeBound(&r)
}

// withoutTimerHeaders copies the headers, but for those that mean something to the plugin's side.
func withoutTimerHeaders(headers []record.Header) []record.Header {
	kept := make([]record.Header, 0, len(headers)+1)
	for _, h := range headers {
		if !pluginpb.IsTimerHeader(h.Key) {
			kept = append(kept, h)
		}
	}
	return kept
}

func clockName(c operator.Clock) string {
	if c == operator.WallClock {
		return pluginpb.ClockWall
	}
	return pluginpb.ClockEvent
}

func clockOf(headers []record.Header) operator.Clock {
	if value, _ := headerOf(headers, pluginpb.HeaderTimerClock); value == pluginpb.ClockWall {
		return operator.WallClock
	}
	return operator.EventClock
}

func headerOf(headers []record.Header, name string) (string, bool) {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Key == name {
			return string(headers[i].Value), true
		}
	}
	return "", false
}

// exchange sends what was added and takes the answer.
func (s *timedPluginStep) exchange(ctx *operator.Context, in, out *operator.Batch) error {
	if s.op == nil {
		op, err := s.owner.open(s.node)
		if err != nil {
			return err
		}
		s.op = op
	}
	var end host.Record
	end.Headers = []record.Header{
		{Key: pluginpb.HeaderTimerTime, Value: strconv.AppendInt(nil, s.now, 10)},
		{Key: pluginpb.HeaderTimerClock, Value: []byte(pluginpb.ClockEvent)}}
	s.batch = append(s.batch, end)
	results, err := s.op.Process(s.owner.ctx, s.batch)
	items := s.sent
	s.sent, s.batch, s.bytes = s.sent[:0], s.batch[:0], 0
	if err != nil {
		return err
	}
	for i := range results.Len() {
		var item sentItem
		if i < len(items) {
			item = items[i]
		}
		if err := s.takeTimed(ctx, item, i, results, in, out); err != nil {
			return err
		}
	}
	return nil
}

// takeTimed turns what came of one thing that was sent into records and timers.
func (s *timedPluginStep) takeTimed(ctx *operator.Context, item sentItem, i int,
	results *host.Results, in, out *operator.Batch,
) error {
	outputs := results.Outputs(i)
	for j := range outputs {
		if err := s.takeOne(ctx, item, &outputs[j], in, out); err != nil {
			return err
		}
	}
	failed := results.Err(i)
	if failed == nil {
		return nil
	}
	// A record of an operator with timers is not tried again: timers have fired before it.
	rec := item.rec
	if rec == nil {
		rec = &operator.Record{}
		if t := item.timer; t != nil {
			rec.Key, rec.Value, rec.Timestamp = t.Key, t.Data, t.At
		}
	}
	return ctx.Fail(rec, classPlugin, &operator.Error{Class: failed.Class, Err: failed})
}

// takeOne turns one thing that a plugin gave into a record or a change of timers.
func (s *timedPluginStep) takeOne(ctx *operator.Context, item sentItem, o *host.Record,
	in, out *operator.Batch,
) error {
	clock := clockOf(o.Headers)
	if name, ok := headerOf(o.Headers, pluginpb.HeaderTimerSet); ok {
		return s.timers.Set(operator.Timer{Clock: clock, Key: o.Key, Name: name, At: o.Timestamp,
			Data: o.Value})
	}
	if name, ok := headerOf(o.Headers, pluginpb.HeaderTimerDelete); ok {
		return s.timers.Delete(clock, o.Key, name)
	}
	if why, ok := headerOf(o.Headers, pluginpb.HeaderTimerFailed); ok {
		rec := operator.Record{Key: slices.Clone(o.Key), Value: slices.Clone(o.Value),
			Timestamp: o.Timestamp}
		return ctx.Fail(&rec, classPlugin, errors.New(why))
	}
	var r operator.Record
	if item.rec != nil {
		r = *item.rec
	}
	r.Key, r.Headers = o.Key, carriedHeaders(withoutTimerHeaders(o.Headers), s.node.Carry)
	if at, ok := headerOf(o.Headers, pluginpb.HeaderTimerOf); ok {
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return fmt.Errorf("plugin %q: the time of a timer: %w", s.node.Plugin.Alias, err)
		}
		r = operator.Record{Key: r.Key, Headers: r.Headers, Timestamp: ms}
		operator.StampTimer(&r, operator.Timer{Clock: clock, At: ms}, in, out, &s.place)
		if r.Timestamp = ms; clock == operator.WallClock {
			r.Timestamp = max(0, r.StreamTime) // event time is not that of the clock
		}
		if o.Timestamp != record.NoTimestamp && o.Timestamp < r.Timestamp {
			r.Timestamp = o.Timestamp
		}
	} else if o.Timestamp <= r.StreamTime {
		r.Timestamp = o.Timestamp
	}
	r.SetValue(o.Value)
	out.Append(&r)
	return nil
}
