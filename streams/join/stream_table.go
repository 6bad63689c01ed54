package join

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/streams/operator"
)

// TableOptions describe a join of a stream with a table whose rows come in the order of event time
// with the records of the stream. Only records of the stream cause output, at their own time.
type TableOptions struct {
	// Kind is Inner, Left or Required.
	Kind Kind
	// History keeps rows that were replaced for a span of event time: a record is joined with the
	// row that held at its timestamp. Without it with the latest one by arrival.
	History time.Duration
	// Grace lets a record wait until S >= ts + Grace for rows that come late. Needs History.
	Grace time.Duration
	// OutOfOrder says what happens to rows that come late, without History.
	OutOfOrder OutOfOrder
	// Join puts the row into the record; row is nil if there is none (Left).
	Join func(rec, row *operator.Record) error
	// EncodeLeft gives the value a waiting record is kept with, EncodeRight that of rows; nil as
	// operator.Encode.
	EncodeLeft, EncodeRight operator.EncodeFunc
	// Store names the stores; the id of the step if empty.
	Store string
	// Late is the policy for records, of an inner join, and for rows that are older than the
	// history.
	Late operator.LatePolicy
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Validate reports options that make no sense, all at once.
func (o *TableOptions) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if o.Join == nil {
		fault("no function given to put the row into the record")
	}
	if o.Kind < Inner || o.Kind > Required {
		fault("a stream is joined with a table inner, left or required, not by kind %d", o.Kind)
	}
	for _, x := range []struct {
		name string
		d    time.Duration
	}{{"history", o.History}, {"grace", o.Grace}} {
		if x.d < 0 || x.d > maxSpan || x.d%time.Millisecond != 0 {
			fault("%s is %s, must be whole milliseconds from 0 to %s", x.name, x.d, maxSpan)
		}
	}
	switch {
	case o.Grace > 0 && o.History == 0:
		fault("grace needs a history: without one the latest row is taken, and waiting does not help")
	case o.Grace > o.History && o.Grace > 0:
		fault("grace %s is longer than the history %s, so a record would wait for rows that "+
			"are gone", o.Grace, o.History)
	case o.History > 0 && o.OutOfOrder != Apply:
		fault("rows with a history are never out of order")
	}
	return errors.Join(faults...)
}

// historyParts is into how many buckets a history is cut.
const historyParts = 4

// span is the length of a bucket of the history, ms.
func (o *TableOptions) span() int64 { return max(1, o.History.Milliseconds()/historyParts) }

// waitSpan is the length of a bucket of waiting records, ms.
func (o *TableOptions) waitSpan() int64 { return max(1, o.Grace.Milliseconds()/2) }

// Stores returns the stores the join needs.
func (o *TableOptions) Stores() []operator.StoreSpec {
	if o.History == 0 {
		return []operator.StoreSpec{{Name: o.Store + "-rows",
			Format: fmt.Sprintf("table 1 order %d", o.OutOfOrder)}}
	}
	list := []operator.StoreSpec{
		{Name: o.Store + "-rows", Format: "versions 1"},
		{Name: o.Store + "-history", Kind: operator.Windowed,
			Format: fmt.Sprintf("versions 1 span %d", o.span())},
	}
	if o.Grace > 0 {
		list = append(list, operator.StoreSpec{Name: o.Store + "-waiting", Kind: operator.Windowed,
			Format: fmt.Sprintf("waiting 1 span %d", o.waitSpan())})
	}
	return list
}

// NewTable returns the factory of a step whose first input is the stream and whose second are the
// upserts of the table. Options must be valid and name the store.
func NewTable(o TableOptions) operator.Factory {
	if o.EncodeLeft == nil {
		o.EncodeLeft = operator.Encode
	}
	if o.EncodeRight == nil {
		o.EncodeRight = operator.Encode
	}
	return func() operator.Operator {
		return &streamTable{o: o, history: o.History.Milliseconds(), grace: o.Grace.Milliseconds(),
			s: operator.NoTime}
	}
}

// streamTable is the step of one task.
type streamTable struct {
	o              TableOptions
	history, grace int64 // ms
	ready          bool  // the stores were looked at
	s              int64 // stream time up to which everything due has come out
	// latest is the table without a history, versioned the one with one.
	latest    *rows
	versioned versions
	// waiting are records that wait for their grace, by due time, event and place in it.
	waiting timers
	last    int64  // the event of the last record that waits
	sub     uint32 // and its place among the records of that event
	arena   operator.Arena
	row     []byte // scratch
	key     []byte // scratch
}

// Process implements operator.Operator.
func (j *streamTable) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if err := j.prepare(ctx); err != nil {
		return fmt.Errorf("open table of step %s: %w", ctx.Step(), err)
	}
	for i := range in.Records {
		rec := &in.Records[i]
		if rec.StreamTime > j.s {
			if err := j.advance(ctx, rec.StreamTime, in, out); err != nil {
				return err
			}
		}
		var err error
		if rec.Input == right {
			err = j.upsert(ctx, rec)
		} else {
			err = j.take(ctx, rec, out)
		}
		if err != nil {
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
func (j *streamTable) prepare(ctx *operator.Context) error {
	if j.ready {
		return nil
	}
	j.ready, j.s = true, ctx.StartTime()
	specs := j.o.Stores()
	if j.history == 0 {
		j.latest = &rows{store: ctx.Store(specs[0].Name), order: j.o.OutOfOrder,
			encode: j.o.EncodeRight, arena: &j.arena}
		return nil
	}
	j.versioned = versions{latest: ctx.Store(specs[0].Name), all: ctx.Windows(specs[1].Name),
		history: j.history, span: j.o.span()}
	if err := j.versioned.open(); err != nil {
		return err
	}
	if j.grace == 0 {
		return nil
	}
	j.waiting = timers{all: ctx.Windows(specs[2].Name), span: j.o.waitSpan()}
	return j.waiting.open(j.s)
}

// advance joins the records whose grace is over at s and forgets what is older than the history.
func (j *streamTable) advance(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	j.s = s
	if j.history == 0 {
		return nil
	}
	if j.grace > 0 {
		err := j.waiting.due(s, func(key string, row []byte) error {
			const fixed = 20 // due time, event, place in it
			if len(key) < fixed {
				return fmt.Errorf("read waiting record: %w", errRow)
			}
			var rec operator.Record
			if err := loadAlone(&rec, []byte(key[fixed:]), row, &j.arena); err != nil {
				return err
			}
			due := timeAt([]byte(key))
			rec.Order, rec.StreamTime = in.OrderAt(due), due-1
			// Its history is that of the moment it was due, however far time has moved since.
			return j.join(ctx, &rec, out)
		})
		if err != nil {
			return fmt.Errorf("join waiting records of step %s: %w", ctx.Step(), err)
		}
	}
	if err := j.versioned.drop(s); err != nil {
		return fmt.Errorf("drop history of step %s: %w", ctx.Step(), err)
	}
	return nil
}

// upsert takes a row of the table.
func (j *streamTable) upsert(ctx *operator.Context, rec *operator.Record) error {
	if j.history == 0 {
		_, _, err := j.latest.put(ctx, rec)
		return err
	}
	if rec.Key == nil {
		return ctx.Fail(rec, operator.ClassNullKey, operator.ErrNullKey)
	}
	if j.s != operator.NoTime && rec.Timestamp < j.s-j.history {
		return ctx.Late(rec, j.tooOld(rec))
	}
	bits, value := byte(rowDeleted), []byte(nil)
	if !rec.IsNull() {
		var err error
		if _, value, err = j.o.EncodeRight(rec); err != nil {
			return ctx.Fail(rec, operator.ClassEncode, err)
		}
		bits = 0
	}
	j.row = appendRow(j.row[:0], bits, rec, value)
	return j.versioned.put(rec.Key, rec.Timestamp, j.row, j.s)
}

// tooOld reports a record that is older than the history: as if its time were a window that closes
// when the history has passed it.
func (j *streamTable) tooOld(rec *operator.Record) operator.LateReport {
	w := operator.Window{Start: rec.Timestamp, End: rec.Timestamp + 1}
	return operator.LateReport{First: w, Last: w, Grace: j.history}
}

// take joins a record of the stream, or lets it wait.
func (j *streamTable) take(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	if rec.IsNull() {
		ctx.Stats().Ignored.Add(1)
		return nil
	}
	due := later(rec.Timestamp, j.grace)
	if j.grace == 0 || rec.Key == nil || due <= j.s {
		return j.join(ctx, rec, out)
	}
	_, value, err := j.o.EncodeLeft(rec)
	if err != nil {
		return ctx.Fail(rec, operator.ClassEncode, err)
	}
	if j.sub++; rec.Order != j.last {
		j.last, j.sub = rec.Order, 0
	}
	j.key = appendTime(j.key[:0], due)
	j.key = appendTime(j.key, rec.Order)
	j.key = binary.BigEndian.AppendUint32(j.key, j.sub)
	j.key = append(j.key, rec.Key...)
	j.row = appendRow(j.row[:0], rowOrigin, rec, value)
	return j.waiting.add(j.key, j.row, j.s)
}

// join joins a record of the stream with the row of its key.
func (j *streamTable) join(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	var row *operator.Record
	if rec.Key != nil {
		var err error
		if j.history == 0 {
			row, _, err = j.latest.get(rec.Key)
		} else {
			if rec.Timestamp < rec.StreamTime-j.history && j.o.Kind != Left {
				return ctx.Late(rec, j.tooOld(rec))
			}
			row, err = j.version(rec)
		}
		if err != nil {
			return err
		}
	}
	if row == nil {
		switch j.o.Kind {
		case Inner:
			return nil
		case Required:
			return ctx.Fail(rec, ClassNoMatch, fmt.Errorf("%w of step %s for key %s", ErrNoMatch,
				ctx.Step(), show(rec.Key)))
		}
	}
	out.Append(rec)
	made := &out.Records[len(out.Records)-1]
	if err := j.o.Join(made, row); err != nil {
		out.Records = out.Records[:len(out.Records)-1]
		return ctx.Fail(rec, operator.ClassOperator, err)
	}
	made.Order, made.StreamTime = rec.Order, rec.StreamTime
	return nil
}

// version returns the row that held at the record's time, nil if there was none or it is older
// than the history.
func (j *streamTable) version(rec *operator.Record) (*operator.Record, error) {
	if rec.Timestamp < rec.StreamTime-j.history {
		return nil, nil
	}
	row := new(operator.Record)
	ok, err := j.versioned.find(row, rec.Key, rec.Timestamp, &j.arena)
	if err != nil || !ok {
		return nil, err
	}
	return row, nil
}
