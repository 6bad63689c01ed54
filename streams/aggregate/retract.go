package aggregate

import (
	"encoding/binary"
	"fmt"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// exchange takes the old row of a table out of a group and puts the new one in: one change, one
// result. A row that fails is none: the one before it is taken out all the same. An old row that
// cannot be evaluated was never added.
func (a *aggregate) exchange(ctx *operator.Context, rec *operator.Record, x *target) error {
	ts, err := a.load(rec, x)
	if err != nil {
		return err
	}
	a.results(a.before, a.accs)
	x.before = ts
	if rec.Old != nil && !rec.Old.IsNull() {
		if err := a.evaluate(rec.Old); err == nil {
			if err := a.takeOut(rec.Key); err != nil {
				return err
			}
		}
	}
	if !rec.IsNull() {
		without := a.folds.append(nil, a.accs)
		err := a.evaluate(rec)
		if err == nil {
			err = a.putIn(rec.Key)
		}
		if err != nil {
			if err := ctx.Fail(rec, operator.ClassOperator, err); err != nil {
				return err
			}
			if err := a.folds.decode(without, a.accs); err != nil {
				return err
			}
		}
	}
	a.finish(x, max(ts, rec.Timestamp))
	return nil
}

// tellChange emits the new result of a group of a table's rows with the one it takes the place of,
// so that what is made of groups can take them back too.
func (a *aggregate) tellChange(ctx *operator.Context, out *operator.Batch, result operator.Record,
	x *target) error {
	n := len(out.Records)
	if x.gone {
		out.Records = append(out.Records, result)
	} else if err := a.emit(ctx, out, result, a.accs); err != nil || len(out.Records) == n {
		return err
	}
	if !x.had {
		return nil
	}
	old := result
	old.Timestamp = x.before
	if err := a.fill(&old, a.before); err == nil { // one that cannot be made did not come out
		out.Records[n].Old = &old
	}
	return nil
}

// putIn adds the evaluated row. The fields without rows of their own come first: they may refuse.
func (a *aggregate) putIn(key []byte) error {
	for i := range a.fields {
		f, in := &a.fields[i], &a.args[i]
		in.order = 0 // rows of a table have no order but that of their time
		if f.rows {
			if err := f.orderable(in.value); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
			continue
		}
		if err := a.accs[i].add(f, in); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	for i := range a.fields {
		f, in := &a.fields[i], &a.args[i]
		if !f.rows || in.value.Kind == Null {
			continue
		}
		n, err := a.values.change(f, i, key, in, 1)
		if err != nil {
			return err
		}
		if f.Func == Distinct {
			if n == 1 {
				err = a.accs[i].inc(1)
			}
		} else {
			err = a.accs[i].add(f, in)
		}
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	return nil
}

// orderable fails for values that Min, Max and TopK cannot compare, and values too long for a row.
func (f *Field) orderable(v Value) error {
	if len(v.Text) > state.MaxKey/4 {
		return tooLarge(f)
	}
	if v.Kind == JSON && (f.Func == Min || f.Func == Max || f.Func == TopK) {
		return ErrNoOrder
	}
	return nil
}

// takeOut removes the evaluated row.
func (a *aggregate) takeOut(key []byte) error {
	for i := range a.fields {
		f, in := &a.fields[i], &a.args[i]
		in.order = 0
		if in.value.Kind == Null {
			continue
		}
		var err error
		if f.rows {
			err = a.takeMember(f, i, key, in)
		} else {
			err = a.accs[i].subtract(f, in.value)
		}
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	return nil
}

// takeMember removes one occurrence of a value and finds the result without it.
func (a *aggregate) takeMember(f *Field, i int, key []byte, in *argument) error {
	n, err := a.values.change(f, i, key, in, -1)
	if err != nil || n < 0 {
		return err // it was never added
	}
	acc := &a.accs[i]
	switch f.Func {
	case Distinct:
		if n == 0 {
			return acc.inc(-1)
		}
		return nil
	case Min, Max:
		if n > 0 || acc.extreme != in.value {
			return nil
		}
	}
	return a.refill(f, i, key, acc)
}

// change adds to how often a value is there and returns the result, -1 if there is none to take.
func (m *members) change(f *Field, i int, key []byte, in *argument, by int) (int, error) {
	m.buf = f.appendPlace(appendMember(m.buf[:0], key, i), in)
	if len(m.buf) > state.MaxKey {
		return 0, tooLarge(f)
	}
	row, ok, err := m.store.Get(m.buf)
	if err != nil {
		return 0, fmt.Errorf("get value: %w", err)
	}
	n := 0
	if ok {
		count, _, err := memberCount(row)
		if err != nil {
			return 0, err
		}
		n = int(count)
	}
	if n += by; n < 0 {
		return n, nil
	}
	if n == 0 {
		err = m.store.Delete(m.buf)
	} else {
		e := entry{ts: in.ts, value: in.value, shown: in.shown}
		err = m.store.Put(m.buf, e.append(binary.AppendUvarint(nil, uint64(n)), f))
	}
	if err != nil {
		return 0, fmt.Errorf("put value: %w", err)
	}
	return n, nil
}

// refill makes the result of a field from its values anew: the first ones in their order.
func (a *aggregate) refill(f *Field, i int, key []byte, acc *accumulator) error {
	acc.reset()
	list := acc.need().entries[:0]
	keep := 1
	if f.Limit > 0 {
		keep = f.Limit
	}
	prefix := appendMember(nil, key, i)
	err := a.values.store.Scan(prefix, after(prefix), func(_, row []byte) error {
		n, size, err := memberCount(row)
		if err != nil {
			return err
		}
		r := fields.Reader{Left: row[size:]}
		e := readEntry(&r, f)
		if !r.Whole() {
			return fmt.Errorf("decode value: %w", errRow)
		}
		for ; n > 0 && len(list) < keep; n-- {
			list = append(list, e)
		}
		if len(list) == keep {
			return state.ErrStop
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("scan values: %w", err)
	}
	if f.Func == Min || f.Func == Max {
		if len(list) > 0 {
			acc.extreme = list[0].value
		}
		return nil
	}
	acc.more.entries = list
	return nil
}

// subtract takes a value out that was added before.
func (a *accumulator) subtract(f *Field, v Value) error {
	switch f.Func {
	case Count:
		return a.lessOne()
	case Sum:
		return a.subtractNumber(v)
	case Avg:
		if err := a.subtractNumber(v); err != nil {
			return err
		}
		return a.lessOne()
	}
	if err := number(v); err != nil {
		return nil // it was never added
	}
	m := a.need()
	if f.Func == Quantile {
		return m.quantiles.subtract(bucketOf(float(v)))
	}
	return m.moments.subtract(v)
}

func (a *accumulator) lessOne() error {
	if a.count == 0 {
		return ErrBelowZero
	}
	a.count--
	return nil
}

func (a *accumulator) subtractNumber(v Value) error {
	switch v.Kind {
	case Int:
		s, ok := subtractExact(a.sum, v.Int)
		if !ok {
			return operator.WithClass(operator.ClassOverflow,
				fmt.Errorf("%w: %d - %d", ErrOverflow, a.sum, v.Int))
		}
		a.sum = s
	case Float:
		return a.addFloat(-v.Float)
	}
	return nil
}
