package join

import (
	"errors"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/streams/operator"
)

// Sides of a join, which are the inputs of its step.
const (
	left  = 0
	right = 1
)

// StreamOptions describe a join of two streams by key and event time. Records l and r match when
// their keys are equal and r.Timestamp is in [l.Timestamp - Before, l.Timestamp + After].
type StreamOptions struct {
	// Kind is Inner, Left or Outer.
	Kind Kind
	// Before and After bound the time between the records, inclusive.
	Before, After time.Duration
	// Grace keeps the window of a record open beyond that, in stream time. A left record is closed
	// iff S > ts + After + Grace, a right one iff S > ts + Before + Grace. What is closed takes
	// part in nothing any more, and a record that comes closed is late.
	Grace time.Duration
	// Join sets the value (and, if wanted, headers) of out from a pair. out has the key and the
	// larger timestamp of both. left or right is nil where an outer join has no match. All three
	// are only valid during the call, their bytes may be kept.
	Join func(out, left, right *operator.Record) error
	// EncodeLeft and EncodeRight give the value a record is kept with; nil as operator.Encode.
	// A record they fail on is not joined.
	EncodeLeft, EncodeRight operator.EncodeFunc
	// Store names the stores; the id of the step if empty.
	Store string
	// Late is the policy for records that come after their window was closed.
	Late operator.LatePolicy
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Validate reports options that make no sense, all at once.
func (o *StreamOptions) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if o.Join == nil {
		fault("no function given to make one record of two")
	}
	if o.Kind != Inner && o.Kind != Left && o.Kind != Outer {
		fault("streams are joined inner, left or outer, not by kind %d", o.Kind)
	}
	for _, x := range []struct {
		name string
		d    time.Duration
	}{{"before", o.Before}, {"after", o.After}, {"grace", o.Grace}} {
		switch {
		case x.d < 0:
			fault("%s is %s, must not be negative", x.name, x.d)
		case x.d > maxSpan:
			fault("%s is %s, must not be above %s", x.name, x.d, maxSpan)
		case x.d%time.Millisecond != 0:
			fault("%s is %s, must be whole milliseconds", x.name, x.d)
		}
	}
	return errors.Join(faults...)
}

// maxSpan bounds the spans of a join; it keeps sums of them far from overflow.
const maxSpan = 100 * 366 * 24 * time.Hour

// Stores returns the stores the join needs. Their format changes with the window.
func (o *StreamOptions) Stores() []operator.StoreSpec {
	g := o.geometry()
	format := fmt.Sprintf("stream join 1 slot %d segment %d", g.slot, g.segment)
	list := []operator.StoreSpec{{Name: o.Store + "-buffer", Kind: operator.Windowed,
		Format: format}}
	if o.Kind != Inner {
		list = append(list, operator.StoreSpec{Name: o.Store + "-pending",
			Kind: operator.Windowed, Format: format})
	}
	return list
}

// geometry is how the time of a join is cut, all in ms.
type geometry struct {
	before, after, grace int64
	// slot is the span of event time whose records of one key lie together. A record looks at
	// most at four of them, however long the grace.
	slot int64
	// segment is the span of event time in one bucket, a multiple of slot. Records of at most
	// four segments are open at once.
	segment int64
}

func (o *StreamOptions) geometry() geometry {
	g := geometry{before: o.Before.Milliseconds(), after: o.After.Milliseconds(),
		grace: o.Grace.Milliseconds()}
	g.slot = max(1, (g.before+g.after+1)/2)
	half := (g.before + g.after + g.grace + 1) / 2
	g.segment = max(1, (half+g.slot-1)/g.slot) * g.slot
	return g
}

// due is the stream time from which on a record of a side is closed.
func (g *geometry) due(side int, ts int64) int64 {
	if side == left {
		return later(ts, g.after+g.grace+1)
	}
	return later(ts, g.before+g.grace+1)
}

// partners returns the bounds, inclusive, of the timestamps a record of a side matches.
func (g *geometry) partners(side int, ts int64) (from, to int64) {
	if side == left {
		return ts - g.before, later(ts, g.after)
	}
	return ts - g.after, later(ts, g.before)
}

// NewStreams returns the factory of a step whose first input is the left stream and whose second
// is the right one. Options must be valid and name the store.
func NewStreams(o StreamOptions) operator.Factory {
	if o.EncodeLeft == nil {
		o.EncodeLeft = operator.Encode
	}
	if o.EncodeRight == nil {
		o.EncodeRight = operator.Encode
	}
	return func() operator.Operator {
		j := &streams{o: o, geometry: o.geometry(), s: operator.NoTime}
		j.keeps = [2]bool{o.Kind == Left || o.Kind == Outer, o.Kind == Outer}
		return j
	}
}

// streams is the step of one task.
type streams struct {
	o StreamOptions
	geometry
	// keeps tells for each side whether its unmatched records come out.
	keeps  [2]bool
	ready  bool  // the stores were looked at
	s      int64 // stream time up to which everything due has come out
	buffer buffer
	// pending are the unmatched records, by appendUnmatched; not used by inner joins.
	pending timers
	arena   operator.Arena
	found   []match // scratch
	row     []byte  // scratch
	index   []byte  // scratch
}

// Process implements operator.Operator.
func (j *streams) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if err := j.prepare(ctx); err != nil {
		return err
	}
	for i := range in.Records {
		rec := &in.Records[i]
		if rec.StreamTime > j.s {
			if err := j.advance(ctx, rec.StreamTime, in, out); err != nil {
				return err
			}
		}
		if err := j.take(ctx, rec, out); err != nil {
			return fmt.Errorf("join record of %s-%d at %d: %w", rec.Topic(), rec.Partition(),
				rec.Offset(), err)
		}
	}
	if in.StreamTime > j.s {
		return j.advance(ctx, in.StreamTime, in, out)
	}
	return nil
}

// prepare finds the rows of a restored task.
func (j *streams) prepare(ctx *operator.Context) error {
	if j.ready {
		return nil
	}
	j.ready, j.s = true, ctx.StartTime()
	specs := j.o.Stores()
	j.buffer = buffer{all: ctx.Windows(specs[0].Name), g: &j.geometry}
	if err := j.buffer.open(); err != nil {
		return fmt.Errorf("open buffer of step %s: %w", ctx.Step(), err)
	}
	if len(specs) == 1 {
		return nil
	}
	j.pending = timers{all: ctx.Windows(specs[1].Name), span: j.segment}
	if err := j.pending.open(j.s); err != nil {
		return fmt.Errorf("open unmatched records of step %s: %w", ctx.Step(), err)
	}
	return nil
}

// advance emits the unmatched records that are due at s, and forgets what is closed.
func (j *streams) advance(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	j.s = s
	if j.o.Kind != Inner {
		err := j.pending.due(s, func(key string, _ []byte) error {
			return j.alone(ctx, key, in, out)
		})
		if err != nil {
			return fmt.Errorf("emit unmatched records of step %s: %w", ctx.Step(), err)
		}
	}
	if err := j.buffer.drop(s); err != nil {
		return fmt.Errorf("drop closed records of step %s: %w", ctx.Step(), err)
	}
	return nil
}

// alone emits a record that has matched nothing when its window closes.
func (j *streams) alone(ctx *operator.Context, key string, in, out *operator.Batch) error {
	u, err := parseUnmatched(key)
	if err != nil {
		return err
	}
	row, ok, err := j.buffer.get(u.entry)
	if err != nil || !ok {
		return err
	}
	var rec operator.Record
	if err := loadAlone(&rec, j.arena.Copy(u.key), row, &j.arena); err != nil {
		return err
	}
	rec.Order, rec.StreamTime = in.OrderAt(u.dueAt), u.dueAt-1
	return j.emitAlone(ctx, u.side, &rec, out)
}

// emitAlone emits rec without a partner.
func (j *streams) emitAlone(ctx *operator.Context, side int, rec *operator.Record,
	out *operator.Batch) error {
	if side == left {
		return j.emit(ctx, rec, rec, nil, out)
	}
	return j.emit(ctx, rec, nil, rec, out)
}

// emit makes one result; cause gives its key, order and, if it fails, the record that failed.
func (j *streams) emit(ctx *operator.Context, cause, l, r *operator.Record,
	out *operator.Batch) error {
	result := operator.Record{Key: cause.Key, Timestamp: cause.Timestamp, Order: cause.Order,
		StreamTime: cause.StreamTime}
	if l != nil && r != nil {
		result.Timestamp = max(l.Timestamp, r.Timestamp)
	}
	out.Records = append(out.Records, result)
	made := &out.Records[len(out.Records)-1]
	if err := j.o.Join(made, l, r); err != nil {
		out.Records = out.Records[:len(out.Records)-1]
		return ctx.Fail(cause, operator.ClassOperator, fmt.Errorf("make one record of two: %w", err))
	}
	made.Order, made.StreamTime = result.Order, result.StreamTime
	made.CausedBy(cause)
	return nil
}

// take joins one record with the open ones of the other side and keeps it.
func (j *streams) take(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	side := int(rec.Input) & 1
	if rec.IsNull() || rec.Key == nil && !j.keeps[side] {
		ctx.Stats().Ignored.Add(1)
		return nil
	}
	due := j.due(side, rec.Timestamp)
	if rec.Key != nil && j.s >= due {
		return ctx.Late(rec, j.late(side, rec))
	}
	encode := j.o.EncodeLeft
	if side == right {
		encode = j.o.EncodeRight
	}
	_, value, err := encode(rec)
	if err != nil {
		return ctx.Fail(rec, operator.ClassEncode, err)
	}
	if rec.Key == nil {
		return j.emitAlone(ctx, side, rec, out)
	}
	matched, err := j.match(ctx, side, rec, out)
	if err != nil {
		return err
	}
	bits := byte(0)
	switch {
	case matched:
		bits = rowMatched
	case j.keeps[side]: // it may come out alone, when nothing but the row is left of it
		bits = rowOrigin
	}
	j.row = appendRow(j.row[:0], bits, rec, value)
	at, err := j.buffer.add(side, rec.Key, rec.Timestamp, j.row)
	if err != nil || matched || !j.keeps[side] {
		return err
	}
	j.index = appendUnmatched(j.index[:0], unmatched{entry: at, dueAt: due})
	return j.pending.add(j.index, nil, j.s)
}

func (j *streams) late(side int, rec *operator.Record) operator.LateReport {
	from, to := j.partners(side, rec.Timestamp)
	w := operator.Window{Start: from, End: later(to, 1)}
	return operator.LateReport{First: w, Last: w, Grace: j.grace}
}

// match emits the pairs of rec and reports whether there was one.
func (j *streams) match(ctx *operator.Context, side int, rec *operator.Record,
	out *operator.Batch) (matched bool, err error) {
	other := 1 - side
	from, to := j.partners(side, rec.Timestamp)
	// A partner is open iff s < due(its ts): rows below that are there until their segment goes.
	if open := j.s - (j.due(other, 0) - 1); open > from {
		from = open
	}
	if j.found, err = j.buffer.find(j.found[:0], other, rec.Key, from, to); err != nil {
		return false, err
	}
	for _, m := range j.found {
		row, ok, err := j.buffer.get(m.entry)
		if err != nil || !ok {
			return false, err
		}
		if row[0]&rowMatched == 0 && j.keeps[other] {
			if row, err = j.settle(m.entry, row); err != nil {
				return false, err
			}
		}
		var partner operator.Record
		if err := load(&partner, rec.Key, row, &j.arena); err != nil {
			return false, err
		}
		l, r := rec, &partner
		if side == right {
			l, r = r, l
		}
		if err := j.emit(ctx, rec, l, r, out); err != nil {
			return false, err
		}
	}
	return len(j.found) > 0, nil
}

// settle marks a kept record as matched, so that it does not come out alone.
func (j *streams) settle(at entry, row []byte) ([]byte, error) {
	j.row = append(j.row[:0], row...)
	j.row[0] |= rowMatched
	if err := j.buffer.put(at, j.row); err != nil {
		return nil, err
	}
	j.index = appendUnmatched(j.index[:0], unmatched{entry: at, dueAt: j.due(at.side, at.ts)})
	return j.row, j.pending.remove(j.index)
}
