package join

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// Kind says what becomes of a record that matches nothing.
type Kind int8

// Kinds of joins.
const (
	// Inner leaves it out.
	Inner Kind = iota
	// Left joins it with nil.
	Left
	// Required fails it with class join_missing, so that it reaches the dead letters.
	Required
	// Outer joins what matches nothing with nil on either side; not for lookups in a table.
	Outer
)

// Options describe a lookup.
type Options struct {
	Kind Kind
	// Key is what is looked up; nil takes the record's key. A table that is not broadcast only
	// holds the keys of the task's partition, so it has to be the record's key then.
	Key func(rec *operator.Record) ([]byte, error)
	// Join puts the row into the record (SetDoc or SetValue). right is what the table's Decode
	// made of the row, which may be seen by other records too and must not be changed; without a
	// Decode it is the bytes; nil if there is no row (Left).
	Join func(rec *operator.Record, right any) error
	// Bytes, in the place of Join, makes the function that puts the bytes of a row into the records
	// of one task, for a table whose Decode only checks them; row is nil if there is none. The bytes
	// are the record's.
	Bytes func() func(rec *operator.Record, row []byte) error
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
	// Transient: Key and Join keep nothing of a record, not even its bytes.
	Transient bool
}

// Validate reports options that make no sense.
func (o *Options) Validate() error {
	if (o.Join == nil) == (o.Bytes == nil) {
		return fmt.Errorf("%w: no function given to put the row into the record", ErrInvalid)
	}
	if o.Kind < Inner || o.Kind > Required {
		return fmt.Errorf("%w: unknown kind %d", ErrInvalid, o.Kind)
	}
	return nil
}

// New returns the factory of the step that looks up the table kept in the store called table.
func New(o Options, table string, decode func(key, value []byte) (any, error)) operator.Factory {
	return func() operator.Operator {
		l := &lookup{o: o, table: table, decode: decode, decoded: map[string]decoded{}}
		if o.Bytes != nil {
			l.put = o.Bytes()
		}
		return l
	}
}

// lookup is the step of one task.
type lookup struct {
	o      Options
	table  string
	decode func(key, value []byte) (any, error)
	rows   state.Store
	// decoded keeps rows as Decode made them, together with their bytes, which tell whether the
	// row is still the same.
	decoded map[string]decoded

	// put is what Options.Bytes made; arena has the bytes it was given.
	put   func(rec *operator.Record, row []byte) error
	arena operator.Arena
	// checker is rows, if it remembers which of them were checked; good is check.
	checker state.Checker
	good    func(key, value []byte) error
}

var _ operator.InPlace = (*lookup)(nil)

// decoded is a row of the table.
type decoded struct {
	bytes []byte
	value any
}

// maxDecoded bounds the decoded rows kept per task; beyond it all are forgotten.
const maxDecoded = 16 << 10

// Process implements operator.Operator.
func (l *lookup) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if err := l.ProcessInPlace(ctx, in); err != nil {
		return err
	}
	out.Records = append(out.Records, in.Records...)
	return nil
}

// ProcessInPlace implements operator.InPlace.
func (l *lookup) ProcessInPlace(ctx *operator.Context, b *operator.Batch) error {
	if l.rows == nil {
		l.rows = ctx.Store(l.table)
		l.checker, _ = l.rows.(state.Checker)
		l.good = l.check
	}
	n := 0
	for i := range b.Records {
		if n != i {
			b.Records[n] = b.Records[i]
		}
		keep, err := l.join(ctx, &b.Records[n])
		if err != nil {
			return err
		}
		if keep {
			n++
		}
	}
	b.Records = b.Records[:n]
	return nil
}

// join joins one record; keep tells whether it stays in the stream.
func (l *lookup) join(ctx *operator.Context, rec *operator.Record) (keep bool, err error) {
	if rec.IsNull() {
		ctx.Stats().Ignored.Add(1)
		return false, nil
	}
	key := rec.Key
	if l.o.Key != nil {
		if key, err = l.o.Key(rec); err != nil {
			return false, ctx.Fail(rec, operator.ClassOperator, err)
		}
	}
	var right any
	var row []byte
	found := false
	if key != nil {
		if l.put != nil {
			row, found, err = l.findBytes(key)
		} else {
			right, found, err = l.find(key)
		}
		if err != nil {
			return false, l.failed(ctx, rec, err)
		}
	}
	if !found {
		switch l.o.Kind {
		case Inner:
			return false, nil
		case Required:
			return false, ctx.Fail(rec, ClassNoMatch,
				fmt.Errorf("%w %s for key %s", ErrNoMatch, l.table, show(key)))
		}
	}
	if l.put != nil {
		err = l.put(rec, row)
	} else {
		err = l.o.Join(rec, right)
	}
	if err != nil {
		return false, ctx.Fail(rec, operator.ClassOperator, err)
	}
	return true, nil
}

// errDecode tells a row that cannot be decoded from a store that cannot be read.
type errDecode struct{ error }

// Unwrap returns the cause.
func (e errDecode) Unwrap() error { return e.error }

func (l *lookup) failed(ctx *operator.Context, rec *operator.Record, err error) error {
	var d errDecode
	if errors.As(err, &d) {
		return ctx.Fail(rec, operator.ClassDecode, d.error)
	}
	return err
}

// find returns the row of a key.
func (l *lookup) find(key []byte) (right any, ok bool, err error) {
	value, ok, err := l.rows.Get(key)
	if err != nil {
		return nil, false, fmt.Errorf("look up table %s: %w", l.table, err)
	}
	if !ok {
		return nil, false, nil
	}
	if l.decode == nil {
		return bytes.Clone(value), true, nil
	}
	if d, ok := l.decoded[string(key)]; ok && bytes.Equal(d.bytes, value) {
		return d.value, true, nil
	}
	value = bytes.Clone(value)
	v, err := l.decode(key, value)
	if err != nil {
		return nil, false, errDecode{fmt.Errorf("row of table %s for key %s: %w",
			l.table, show(key), err)}
	}
	if len(l.decoded) >= maxDecoded {
		clear(l.decoded)
	}
	l.decoded[string(key)] = decoded{bytes: value, value: v}
	return v, true, nil
}

// findBytes returns a copy of the row of a key. The rows of a table were checked when they came,
// but maybe by another version of the pipeline, so each is checked once more.
func (l *lookup) findBytes(key []byte) (row []byte, ok bool, err error) {
	if l.decode != nil && l.checker != nil {
		row, ok, err = l.checker.GetChecked(key, l.good)
	} else if row, ok, err = l.rows.Get(key); ok && l.decode != nil {
		err = l.check(key, row)
	}
	if err != nil {
		if _, bad := errors.AsType[errDecode](err); bad {
			return nil, false, err
		}
		return nil, false, fmt.Errorf("look up table %s: %w", l.table, err)
	}
	if !ok {
		return nil, false, nil
	}
	return l.arena.Copy(row), true, nil
}

// check reports a row that the table's Decode is not content with.
func (l *lookup) check(key, value []byte) error {
	if _, err := l.decode(key, value); err != nil {
		return errDecode{fmt.Errorf("row of table %s for key %s: %w", l.table, show(key), err)}
	}
	return nil
}

// show prints a key for people.
func show(key []byte) string {
	const most = 64
	switch {
	case key == nil:
		return "null"
	case len(key) > most:
		return fmt.Sprintf("%q...", key[:most])
	}
	return fmt.Sprintf("%q", key)
}
