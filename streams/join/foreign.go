package join

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// ForeignOptions describe a join of two tables in which a row of the left one names the key of its
// row in the right one. The result has the keys of the left table.
type ForeignOptions struct {
	// Kind is Inner or Left.
	Kind Kind
	// ForeignKey gives the key of the right row for a left row; nil is none. The bytes are
	// compared with the keys of the right table as they are.
	ForeignKey func(rec *operator.Record) ([]byte, error)
	// Join is as of TablesOptions.
	Join func(out, left, right *operator.Record) error
	// EncodeLeft and EncodeRight give the value a row is kept and sent with; nil as
	// operator.Encode.
	EncodeLeft, EncodeRight operator.EncodeFunc
	// Store names the stores; the id of the join if empty.
	Store string
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Validate reports options that make no sense, all at once.
func (o *ForeignOptions) Validate() error {
	var faults []error
	fault := func(text string) { faults = append(faults, fmt.Errorf("%w: %s", ErrInvalid, text)) }
	if o.Join == nil {
		fault("no function given to make one row of two")
	}
	if o.ForeignKey == nil {
		fault("no function given for the foreign key")
	}
	if o.Kind != Inner && o.Kind != Left {
		fault("tables are joined by foreign key inner or left only")
	}
	return errors.Join(faults...)
}

// WithDefaults fills in what is not set.
func (o ForeignOptions) WithDefaults() ForeignOptions {
	if o.EncodeLeft == nil {
		o.EncodeLeft = operator.Encode
	}
	if o.EncodeRight == nil {
		o.EncodeRight = operator.Encode
	}
	return o
}

// LeftStores, MatchStores and Stores are the stores of the three steps.
func (o *ForeignOptions) LeftStores() []operator.StoreSpec {
	return []operator.StoreSpec{{Name: o.Store + "-keys", Format: "foreign keys 1"}}
}

// MatchStores returns the stores of the step of NewForeignMatch.
func (o *ForeignOptions) MatchStores() []operator.StoreSpec {
	return []operator.StoreSpec{{Name: o.Store + "-right", Format: "table 1 order 0"},
		{Name: o.Store + "-subscriptions", Format: "subscriptions 1"}}
}

// Stores returns the stores of the step of NewForeignResult.
func (o *ForeignOptions) Stores() []operator.StoreSpec {
	return []operator.StoreSpec{{Name: o.Store + "-results", Format: "foreign results 1"}}
}

// Outputs of the step of NewForeignLeft.
const (
	toResult = 0 // the left rows, by their key
	toMatch  = 1 // subscriptions, by foreign key
)

// ForeignOutputs names the outputs of the step of NewForeignLeft.
func ForeignOutputs() []string { return []string{"rows", "subscriptions"} }

// What a subscription says.
const (
	subscribe = iota
	unsubscribe
)

// hashOf tells left rows apart, so that an answer for one that was replaced is known as stale.
func hashOf(row []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(row)
	return h.Sum64()
}

// NewForeignLeft returns the factory of the step where the left table is read: it tells the right
// table's tasks which left rows want which right row.
func NewForeignLeft(o ForeignOptions) operator.Factory {
	return func() operator.Operator { return &foreignLeft{o: o} }
}

// foreignLeft keeps, for each left key, the foreign key it is subscribed to.
type foreignLeft struct {
	o     ForeignOptions
	keys  state.Store
	arena operator.Arena
}

// Process implements operator.Operator.
func (f *foreignLeft) Process(ctx *operator.Context, in, _ *operator.Batch) error {
	if f.keys == nil {
		f.keys = ctx.Store(f.o.LeftStores()[0].Name)
	}
	for i := range in.Records {
		if err := f.change(ctx, &in.Records[i]); err != nil {
			return fmt.Errorf("join by foreign key in step %s: %w", ctx.Step(), err)
		}
	}
	return nil
}

func (f *foreignLeft) change(ctx *operator.Context, rec *operator.Record) error {
	if rec.Key == nil {
		return ctx.Fail(rec, operator.ClassNullKey, operator.ErrNullKey)
	}
	var foreign, row []byte
	if !rec.IsNull() {
		key, err := f.o.ForeignKey(rec)
		if err != nil {
			return ctx.Fail(rec, operator.ClassOperator, fmt.Errorf("foreign key: %w", err))
		}
		_, value, err := f.o.EncodeLeft(rec)
		if err != nil {
			return ctx.Fail(rec, operator.ClassEncode, err)
		}
		foreign = key
		row = f.arena.End(appendRow(f.arena.Start(), 0, rec, value))
	}
	old, had, err := f.keys.Get(rec.Key)
	if err != nil {
		return fmt.Errorf("read foreign key: %w", err)
	}
	if had && !(foreign != nil && bytes.Equal(old, foreign)) {
		f.send(ctx, rec, bytes.Clone(old), unsubscribe, nil)
	}
	switch {
	case foreign != nil:
		err = f.keys.Put(rec.Key, foreign)
	case had:
		err = f.keys.Delete(rec.Key)
	}
	if err != nil {
		return fmt.Errorf("keep foreign key: %w", err)
	}
	if foreign != nil {
		f.send(ctx, rec, foreign, subscribe, row)
	}
	// The row itself goes to where results are made: first whether it waits for an answer.
	out := operator.Record{Key: rec.Key, Timestamp: rec.Timestamp, Order: rec.Order,
		StreamTime: rec.StreamTime}
	out.CausedBy(rec)
	if row != nil {
		b := append(f.arena.Start(), 0)
		if foreign != nil {
			b[0] = 1
		}
		out.Value = f.arena.End(append(b, row...))
	}
	ctx.Output(toResult).Append(&out)
	return nil
}

// send writes a subscription: what it says, the hash of the left row, and its key.
func (f *foreignLeft) send(ctx *operator.Context, rec *operator.Record, foreign []byte, what byte,
	row []byte) {
	b := append(f.arena.Start(), what)
	b = binary.BigEndian.AppendUint64(b, hashOf(row))
	b = f.arena.End(append(b, rec.Key...))
	out := operator.Record{Key: f.arena.Copy(foreign), Value: b, Timestamp: rec.Timestamp,
		Order: rec.Order, StreamTime: rec.StreamTime}
	out.CausedBy(rec)
	ctx.Output(toMatch).Append(&out)
}

// NewForeignMatch returns the factory of the step that has the right table. Its first input are
// the subscriptions, its second one the upserts of the right table, its output answers by left key.
func NewForeignMatch(o ForeignOptions) operator.Factory {
	return func() operator.Operator { return &foreignMatch{o: o} }
}

// foreignMatch keeps the right rows and who wants which.
type foreignMatch struct {
	o             ForeignOptions
	table         *rows
	subscriptions state.Store
	arena         operator.Arena
	key           []byte // scratch
}

// Process implements operator.Operator.
func (f *foreignMatch) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if f.table == nil {
		specs := f.o.MatchStores()
		f.table = &rows{store: ctx.Store(specs[0].Name), encode: f.o.EncodeRight, arena: &f.arena}
		f.subscriptions = ctx.Store(specs[1].Name)
	}
	for i := range in.Records {
		rec := &in.Records[i]
		var err error
		if rec.Input == right {
			err = f.change(ctx, rec, out)
		} else {
			err = f.subscription(rec, out)
		}
		if err != nil {
			return fmt.Errorf("join by foreign key in step %s: %w", ctx.Step(), err)
		}
	}
	return nil
}

// prefix is where the subscriptions to a right key begin: its length and the key.
func (f *foreignMatch) prefix(foreign []byte) []byte {
	f.key = binary.BigEndian.AppendUint32(f.key[:0], uint32(len(foreign)))
	f.key = append(f.key, foreign...)
	return f.key
}

// subscription takes or ends one, and answers a new one.
func (f *foreignMatch) subscription(rec *operator.Record, out *operator.Batch) error {
	r := fields.Reader{Left: rec.Value}
	what, hash := r.Byte(), r.Fixed64()
	if r.Failed() || what > unsubscribe {
		return fmt.Errorf("read subscription of %d bytes: %w", len(rec.Value), errRow)
	}
	at := append(f.prefix(rec.Key), r.Left...)
	if what == unsubscribe {
		if err := f.subscriptions.Delete(at); err != nil {
			return fmt.Errorf("end subscription: %w", err)
		}
		return nil
	}
	if err := f.subscriptions.Put(at, binary.BigEndian.AppendUint64(nil, hash)); err != nil {
		return fmt.Errorf("keep subscription: %w", err)
	}
	row, ok, err := f.table.store.Get(rec.Key)
	if err != nil {
		return fmt.Errorf("read row of table: %w", err)
	}
	if !ok {
		row = nil
	}
	f.answer(rec, r.Left, hash, row, out)
	return nil
}

// change applies an upsert of the right table and answers all who want that row, in the order of
// their keys.
func (f *foreignMatch) change(ctx *operator.Context, rec *operator.Record,
	out *operator.Batch) error {
	old, applied, err := f.table.put(ctx, rec)
	if err != nil || !applied || old == nil && rec.IsNull() {
		return err
	}
	var row []byte
	if !rec.IsNull() {
		row = bytes.Clone(f.table.buf)
	}
	from := bytes.Clone(f.prefix(rec.Key))
	return f.subscriptions.Scan(from, after(from), func(key, hash []byte) error {
		if len(hash) != 8 {
			return fmt.Errorf("read subscription of %d bytes: %w", len(hash), errRow)
		}
		f.answer(rec, key[len(from):], binary.BigEndian.Uint64(hash), row, out)
		return nil
	})
}

// after is the first key behind all that begin with prefix; nil if there is none.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// answer sends the right row, nil for none, to a left key.
func (f *foreignMatch) answer(cause *operator.Record, to []byte, hash uint64, row []byte,
	out *operator.Batch) {
	b := binary.BigEndian.AppendUint64(f.arena.Start(), hash)
	has := byte(0)
	if row != nil {
		has = 1
	}
	b = f.arena.End(append(append(b, has), row...))
	answer := operator.Record{Key: f.arena.Copy(to), Value: b, Timestamp: cause.Timestamp,
		Order: cause.Order, StreamTime: cause.StreamTime}
	answer.CausedBy(cause)
	out.Append(&answer)
}
