package aggregate

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
)

// folds are the fields of an aggregate at work in one task: what one record gives them, the
// accumulators of one row, and the result made of them.
type folds struct {
	fields []Field
	names  [][]byte // field names as JSON, with colon
	make   func(rec *operator.Record, values []Value) error
	accs   []accumulator
	args   []argument
	values []Value
	before []Value // the result before a record was added
	out    operator.Arena
}

func newFolds(o *Options) *folds {
	f := &folds{fields: slices.Clone(o.Fields), make: o.Result,
		accs: make([]accumulator, len(o.Fields)), args: make([]argument, len(o.Fields)),
		values: make([]Value, len(o.Fields)), before: make([]Value, len(o.Fields))}
	for i := range f.fields {
		f.fields[i].rows = o.inRows(&f.fields[i])
		name := StringValue(f.fields[i].Name).AppendJSON(nil)
		f.names = append(f.names, append(name, ':'))
	}
	return f
}

// evaluate takes what a record gives to each field.
func (f *folds) evaluate(rec *operator.Record) error {
	for i := range f.fields {
		x, in := &f.fields[i], &f.args[i]
		in.rec, in.ts, in.order = rec, rec.Timestamp, rec.Order
		if x.Value == nil {
			in.value = IntValue(1)
			continue
		}
		v, err := x.Value(rec)
		if err != nil {
			return fmt.Errorf("field %s: %w", x.Name, err)
		}
		in.value, in.shown = v, v
		if x.Of != nil && v.Kind != Null {
			if in.shown, err = x.Of(rec); err != nil {
				return fmt.Errorf("field %s: %w", x.Name, err)
			}
		}
	}
	return nil
}

// reset empties accumulators.
func reset(accs []accumulator) {
	for i := range accs {
		accs[i].reset()
	}
}

// add puts the evaluated record into accumulators. After an error they must not be used.
func (f *folds) add(accs []accumulator) error {
	for i := range accs {
		if err := accs[i].add(&f.fields[i], &f.args[i]); err != nil {
			return fmt.Errorf("field %s: %w", f.fields[i].Name, err)
		}
	}
	return nil
}

// merge puts later accumulators into accs.
func (f *folds) merge(accs, later []accumulator) error {
	for i := range accs {
		if err := accs[i].merge(&f.fields[i], &later[i]); err != nil {
			return fmt.Errorf("field %s: %w", f.fields[i].Name, err)
		}
	}
	return nil
}

// append encodes accumulators.
func (f *folds) append(dst []byte, accs []accumulator) []byte {
	for i := range accs {
		dst = accs[i].append(dst, &f.fields[i])
	}
	return dst
}

// read decodes accumulators.
func (f *folds) read(r *fields.Reader, accs []accumulator) {
	for i := range accs {
		accs[i].read(r, &f.fields[i])
	}
}

// decode reads what append made and nothing else.
func (f *folds) decode(raw []byte, accs []accumulator) error {
	r := fields.Reader{Left: raw}
	f.read(&r, accs)
	if !r.Whole() {
		return fmt.Errorf("decode %d bytes: %w", len(raw), errRow)
	}
	return nil
}

// decodeTime reads the timestamp of a row of an aggregate without windows.
func (f *folds) decodeTime(row []byte) (int64, error) {
	r := fields.Reader{Left: row}
	ts := int64(r.Fixed64())
	if r.Failed() {
		return 0, fmt.Errorf("decode time of %d bytes: %w", len(row), errRow)
	}
	return ts, nil
}

// results fills values from accumulators.
func (f *folds) results(values []Value, accs []accumulator) {
	for i := range accs {
		values[i] = accs[i].result(&f.fields[i])
	}
}

// allNull reports whether the accumulators come to nothing.
func (f *folds) allNull(accs []accumulator) bool {
	f.results(f.values, accs)
	for _, v := range f.values {
		if v.Kind != Null {
			return false
		}
	}
	return true
}

// reduces reports whether the result is nothing but reduced values, which may be given up.
func (f *folds) reduces() bool {
	for i := range f.fields {
		if f.fields[i].Func != Reduce {
			return false
		}
	}
	return true
}

// emit appends rec, with the value made of accs, to out.
func (f *folds) emit(ctx *operator.Context, out *operator.Batch, rec operator.Record,
	accs []accumulator) error {
	f.results(f.values, accs)
	n := len(out.Records)
	out.Records = append(out.Records, rec)
	r := &out.Records[n]
	if err := f.fill(r, f.values); err != nil {
		err = ctx.Fail(r, operator.ClassOperator, fmt.Errorf("make result: %w", err))
		out.Records = out.Records[:n]
		return err
	}
	return nil
}

// fill sets the value of a result.
func (f *folds) fill(rec *operator.Record, values []Value) error {
	if f.make != nil {
		return f.make(rec, values)
	}
	rec.Value = f.json(rec, values)
	return nil
}

// takeBackOf is takeBack with the result that is gone, encoded in raw, in Old.
func (f *folds) takeBackOf(out *operator.Batch, rec operator.Record, raw []byte,
	scratch []accumulator) error {
	if err := f.decode(raw, scratch); err != nil {
		return err
	}
	f.results(f.values, scratch)
	takeBack(out, rec)
	last := &out.Records[len(out.Records)-1]
	if f.fill(last.Old, f.values) != nil {
		last.Old.SetValue(nil) // it could not be made, so it never came out
	}
	return nil
}

// takeBack appends a record that says that a result is gone.
func takeBack(out *operator.Batch, rec operator.Record) {
	old := rec
	rec.Old = &old
	out.Records = append(out.Records, rec)
}

// json makes the value of a result.
func (f *folds) json(rec *operator.Record, values []Value) []byte {
	b := append(f.out.Start(), '{')
	if rec.Windowed() {
		b = append(b, `"window_start":`...)
		b = strconv.AppendInt(b, rec.Window.Start, 10)
		b = append(b, `,"window_end":`...)
		b = strconv.AppendInt(b, rec.Window.End, 10)
		b = append(b, ',')
	}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, f.names[i]...)
		b = v.AppendJSON(b)
	}
	return f.out.End(append(b, '}'))
}
