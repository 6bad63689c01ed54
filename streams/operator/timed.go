package operator

// TimedOptions describe a step with timers by key and name.
type TimedOptions struct {
	// Store holds the timers; TimerStores says what it needs.
	Store string
	// Each gets every record, behind the timers that are due at its stream time.
	Each func(t *TimedContext, rec *Record) error
	// OnTimer gets every timer that is due, once for each commit of it.
	OnTimer func(t *TimedContext, timer Timer) error
}

// TimedContext is what a step with timers can do. It is valid during the call.
type TimedContext struct {
	*Context
	// Timers are those of the step.
	Timers *NamedTimers
	emit   func(*Record)
}

// Emit passes a record on.
func (t *TimedContext) Emit(rec *Record) { t.emit(rec) }

// Timed returns a step with timers.
func Timed(o TimedOptions) Factory {
	return func() Operator { return &timed{o: o} }
}

type timed struct {
	o     TimedOptions
	t     TimedContext
	place Place
}

// Process implements Operator.
func (p *timed) Process(ctx *Context, in, out *Batch) error {
	if p.t.Timers == nil {
		timers, err := NewNamedTimers(ctx, p.o.Store)
		if err != nil {
			return err
		}
		p.t = TimedContext{Context: ctx, Timers: timers}
	}
	for i := range in.Records {
		rec := &in.Records[i]
		if err := p.fire(EventClock, rec.StreamTime, in, out); err != nil {
			return err
		}
		p.t.emit = func(r *Record) {
			r.Order, r.StreamTime = rec.Order, rec.StreamTime
			out.Append(r)
		}
		if err := p.o.Each(&p.t, rec); err != nil {
			if err := ctx.Fail(rec, ClassOperator, err); err != nil {
				return err
			}
		}
	}
	if err := p.fire(EventClock, in.StreamTime, in, out); err != nil {
		return err
	}
	p.place.Note(in)
	if in.Wall == 0 {
		return nil
	}
	return p.fire(WallClock, in.Wall, in, out)
}

// fire calls OnTimer with what is due. What it emits comes just before the record that moved time.
func (p *timed) fire(clock Clock, now int64, in, out *Batch) error {
	return p.t.Timers.Fire(clock, now, func(t Timer) error {
		p.t.emit = func(r *Record) {
			StampTimer(r, t, in, out, &p.place)
			out.Append(r)
		}
		err := p.o.OnTimer(&p.t, t)
		if err == nil {
			return nil
		}
		failed := Record{Key: t.Key, Value: t.Data, Timestamp: t.At}
		return p.t.Fail(&failed, ClassOperator, err)
	})
}

// StampTimer gives a record that a timer emitted its place: that of the event that made the timer
// due, or behind everything for one of the machine's clock; but not before what out has already, as
// for a timer that was set for a time that had passed.
func StampTimer(r *Record, t Timer, in, out *Batch, place *Place) {
	if t.Clock == WallClock {
		place.Stamp(r)
	} else {
		r.Order, r.StreamTime = in.OrderAt(t.At), t.At-1
	}
	if n := len(out.Records); n > 0 {
		last := &out.Records[n-1]
		if r.Order < last.Order || r.Order == last.Order && r.StreamTime < last.StreamTime {
			r.Order, r.StreamTime = last.Order, last.StreamTime
		}
	}
}
