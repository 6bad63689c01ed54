package join

import (
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/streams/operator"
)

// TablesOptions describe a join of two tables by key.
type TablesOptions struct {
	// Kind is Inner, Left or Outer.
	Kind Kind
	// Join sets the value of out, which has the key and the larger timestamp of both rows. left or
	// right is nil where an outer join has no row. It is called for the result before a change too,
	// and must give the same for the same rows.
	Join func(out, left, right *operator.Record) error
	// OutOfOrder says what happens to rows that come late.
	OutOfOrder OutOfOrder
	// EncodeLeft and EncodeRight give the value a row is kept with; nil as operator.Encode.
	EncodeLeft, EncodeRight operator.EncodeFunc
	// Store names the stores; the id of the step if empty.
	Store string
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Validate reports options that make no sense, all at once.
func (o *TablesOptions) Validate() error {
	var faults []error
	if o.Join == nil {
		faults = append(faults, fmt.Errorf("%w: no function given to make one row of two", ErrInvalid))
	}
	if o.Kind != Inner && o.Kind != Left && o.Kind != Outer {
		faults = append(faults, fmt.Errorf("%w: tables are joined inner, left or outer, "+
			"not by kind %d", ErrInvalid, o.Kind))
	}
	return errors.Join(faults...)
}

// Stores returns the stores the join needs.
func (o *TablesOptions) Stores() []operator.StoreSpec {
	format := fmt.Sprintf("table 1 order %d", o.OutOfOrder)
	return []operator.StoreSpec{{Name: o.Store + "-left", Format: format},
		{Name: o.Store + "-right", Format: format}}
}

// NewTables returns the factory of a step whose inputs are the upserts of the left and the right
// table and whose output are the changes of the joined one. Options must be valid and name the
// store.
func NewTables(o TablesOptions) operator.Factory {
	if o.EncodeLeft == nil {
		o.EncodeLeft = operator.Encode
	}
	if o.EncodeRight == nil {
		o.EncodeRight = operator.Encode
	}
	return func() operator.Operator { return &tables{o: o} }
}

// tables is the step of one task.
type tables struct {
	o     TablesOptions
	sides [2]*rows
	arena operator.Arena
}

// Process implements operator.Operator.
func (t *tables) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if t.sides[left] == nil {
		specs := t.o.Stores()
		for side, encode := range []operator.EncodeFunc{t.o.EncodeLeft, t.o.EncodeRight} {
			t.sides[side] = &rows{store: ctx.Store(specs[side].Name), order: t.o.OutOfOrder,
				encode: encode, arena: &t.arena}
		}
	}
	for i := range in.Records {
		if err := t.change(ctx, &in.Records[i], out); err != nil {
			return fmt.Errorf("join tables in step %s: %w", ctx.Step(), err)
		}
	}
	return nil
}

// change applies an upsert of one side.
func (t *tables) change(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	side := int(rec.Input) & 1
	old, applied, err := t.sides[side].put(ctx, rec)
	if err != nil || !applied || old == nil && rec.IsNull() {
		return err // the deletion of a row that is not there is no change
	}
	other, _, err := t.sides[1-side].get(rec.Key)
	if err != nil {
		return err
	}
	now := rec
	if rec.IsNull() {
		now = nil
	}
	before, err := t.result(side, old, other, operator.NoTime)
	if err == nil {
		var after *operator.Record
		if after, err = t.result(side, now, other, rec.Timestamp); err == nil {
			emitChange(rec, other, before, after, out)
			return nil
		}
	}
	return ctx.Fail(rec, operator.ClassOperator, fmt.Errorf("make one row of two: %w", err))
}

// result joins a row of a side with one of the other; nil if the join has none of them.
func (t *tables) result(side int, own, other *operator.Record, ts int64) (
	*operator.Record, error) {
	l, r := own, other
	if side == right {
		l, r = r, l
	}
	if !exists(t.o.Kind, l, r) {
		return nil, nil
	}
	return pairOf(t.o.Join, l, r, ts)
}

// exists tells whether a join of tables has a row for these two.
func exists(kind Kind, l, r *operator.Record) bool {
	switch kind {
	case Left:
		return l != nil
	case Outer:
		return l != nil || r != nil
	}
	return l != nil && r != nil
}

// pairOf makes one row of two, of which one may be nil. Its timestamp is the largest of theirs and
// of ts, which is that of a deletion when a row went.
func pairOf(join func(out, left, right *operator.Record) error,
	l, r *operator.Record, ts int64) (*operator.Record, error) {
	out := new(operator.Record)
	switch {
	case l == nil:
		out.Key, out.Timestamp = r.Key, r.Timestamp
	case r == nil:
		out.Key, out.Timestamp = l.Key, l.Timestamp
	default:
		out.Key, out.Timestamp = l.Key, max(l.Timestamp, r.Timestamp)
	}
	out.Timestamp = max(out.Timestamp, ts)
	key := out.Key
	ts = out.Timestamp
	if err := join(out, l, r); err != nil {
		return nil, err
	}
	out.Key, out.Timestamp = key, ts
	return out, nil
}

// emitChange emits the change of a result that cause brought about: nothing if there was none and
// is none, a tombstone only if there was one.
func emitChange(cause, other, before, after *operator.Record, out *operator.Batch) {
	switch {
	case after != nil:
		out.Records = append(out.Records, *after)
	case before != nil:
		gone := operator.Record{Key: cause.Key, Timestamp: cause.Timestamp}
		if other != nil {
			gone.Timestamp = max(gone.Timestamp, other.Timestamp)
		}
		out.Records = append(out.Records, gone)
	default:
		return
	}
	made := &out.Records[len(out.Records)-1]
	made.Old, made.Order, made.StreamTime = before, cause.Order, cause.StreamTime
	made.CausedBy(cause)
}
