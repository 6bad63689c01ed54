package join

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// OutOfOrder says what becomes of a row of a table that is older than the one it would replace.
type OutOfOrder int8

// Choices for OutOfOrder.
const (
	// Apply lets the later record win, whatever its timestamp.
	Apply OutOfOrder = iota
	// Ignore keeps the row with the larger timestamp; of equal ones the later record wins.
	Ignore
)

// rowDeleted marks a row that is kept only to know when it went (Ignore).
const rowDeleted = 1 << 2

// rows are a table kept by a step: the latest record of every key.
type rows struct {
	store  state.Store
	order  OutOfOrder
	encode operator.EncodeFunc
	arena  *operator.Arena
	buf    []byte // scratch
}

// get loads the row of a key; ok is false when there is none.
func (t *rows) get(key []byte) (rec *operator.Record, ok bool, err error) {
	b, ok, err := t.store.Get(key)
	if err != nil {
		return nil, false, fmt.Errorf("read row of table: %w", err)
	}
	if !ok || len(b) > 0 && b[0]&rowDeleted != 0 {
		return nil, false, nil
	}
	rec = new(operator.Record)
	if err := load(rec, key, b, t.arena); err != nil {
		return nil, false, err
	}
	return rec, true, nil
}

// put applies an upsert, or a deletion when rec has no value. old is the row before, nil if there
// was none. applied is false when rec is older than what is there, or fails.
func (t *rows) put(ctx *operator.Context, rec *operator.Record) (
	old *operator.Record, applied bool, err error) {
	if rec.Key == nil {
		return nil, false, ctx.Fail(rec, operator.ClassNullKey, operator.ErrNullKey)
	}
	var value []byte
	if !rec.IsNull() {
		if _, value, err = t.encode(rec); err != nil {
			return nil, false, ctx.Fail(rec, operator.ClassEncode, err)
		}
	}
	if t.order == Ignore {
		b, ok, err := t.store.Get(rec.Key)
		if err != nil {
			return nil, false, fmt.Errorf("read row of table: %w", err)
		}
		if ok {
			_, ts, err := rowTime(b)
			if err != nil {
				return nil, false, err
			}
			if rec.Timestamp < ts {
				ctx.Stats().Ignored.Add(1)
				return nil, false, nil
			}
		}
	}
	if old, _, err = t.get(rec.Key); err != nil {
		return nil, false, err
	}
	switch {
	case !rec.IsNull():
		t.buf = appendRow(t.buf[:0], 0, rec, value)
		err = t.store.Put(rec.Key, t.buf)
	case t.order == Ignore:
		t.buf = appendRow(t.buf[:0], rowDeleted, &operator.Record{Timestamp: rec.Timestamp}, nil)
		err = t.store.Put(rec.Key, t.buf)
	case old != nil:
		err = t.store.Delete(rec.Key)
	}
	if err != nil {
		return nil, false, fmt.Errorf("write row of table: %w", err)
	}
	return old, true, nil
}

// ChangesOptions describe a table made of a stream of upserts.
type ChangesOptions struct {
	OutOfOrder OutOfOrder
	// Encode gives the value a row is kept with; nil as operator.Encode.
	Encode operator.EncodeFunc
	// EmitUnchanged also emits upserts that change nothing.
	EmitUnchanged bool
	// Store names the store; the id of the step if empty.
	Store string
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Stores returns the store the table needs.
func (o *ChangesOptions) Stores() []operator.StoreSpec {
	return []operator.StoreSpec{{Name: o.Store, Format: fmt.Sprintf("table 1 order %d", o.OutOfOrder)}}
}

// NewChanges returns the factory of a step that keeps the latest record of every key and gives the
// changes: each record with the row it takes the place of in Old. The deletion of a key that has
// no row is none.
func NewChanges(o ChangesOptions) operator.Factory {
	if o.Encode == nil {
		o.Encode = operator.Encode
	}
	return func() operator.Operator { return &changes{o: o} }
}

// changes is the step of one task.
type changes struct {
	o     ChangesOptions
	table *rows
	arena operator.Arena
}

// Process implements operator.Operator.
func (c *changes) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if c.table == nil {
		c.table = &rows{store: ctx.Store(c.o.Store), order: c.o.OutOfOrder, encode: c.o.Encode,
			arena: &c.arena}
	}
	for i := range in.Records {
		rec := &in.Records[i]
		old, applied, err := c.table.put(ctx, rec)
		if err != nil {
			return fmt.Errorf("table %s: %w", c.o.Store, err)
		}
		if !applied || old == nil && rec.IsNull() {
			continue
		}
		if old != nil && !rec.IsNull() && !c.o.EmitUnchanged && same(old, rec) {
			continue
		}
		out.Append(rec)
		out.Records[len(out.Records)-1].Old = old
	}
	return nil
}

// same tells whether a row takes the place of an equal one.
func same(old, rec *operator.Record) bool {
	return old.Timestamp == rec.Timestamp && !rec.Dirty && bytes.Equal(old.Value, rec.Value) &&
		slices.EqualFunc(old.Headers, rec.Headers, func(x, y record.Header) bool {
			return x.Key == y.Key && (x.Value == nil) == (y.Value == nil) &&
				bytes.Equal(x.Value, y.Value)
		})
}
