package operator

// Filter keeps the records for which keep returns true.
func Filter(keep func(rec *Record) (bool, error)) Factory {
	return func() Operator { return &filter{keep: keep} }
}

type filter struct {
	keep func(rec *Record) (bool, error)
}

var _ InPlace = (*filter)(nil)

// Process implements Operator.
func (f *filter) Process(ctx *Context, in, out *Batch) error {
	for i := range in.Records {
		rec := &in.Records[i]
		ok, err := f.keep(rec)
		if err != nil {
			if err := ctx.Fail(rec, ClassOperator, err); err != nil {
				return err
			}
			continue
		}
		if ok {
			out.Append(rec)
		}
	}
	return nil
}

// ProcessInPlace implements InPlace. Records move only behind the first one removed.
func (f *filter) ProcessInPlace(ctx *Context, b *Batch) error {
	n := 0
	for i := range b.Records {
		rec := &b.Records[i]
		ok, err := f.keep(rec)
		if err != nil {
			if err := ctx.Fail(rec, ClassOperator, err); err != nil {
				return err
			}
			continue
		}
		if !ok {
			continue
		}
		if n != i {
			b.Records[n] = *rec
		}
		n++
	}
	b.Records = b.Records[:n]
	return nil
}

// Map changes every record by fn: its value (SetValue, SetDoc), key, headers or timestamp. A
// timestamp must not be moved above StreamTime.
func Map(fn func(rec *Record) error) Factory {
	keep := func(rec *Record) (bool, error) { return true, fn(rec) }
	return func() Operator { return &filter{keep: keep} }
}

// FlatMap replaces every record by those passed to emit, in that order. An emitted record should
// be a changed copy of rec. When fn fails nothing it emitted for that record is kept.
func FlatMap(fn func(rec *Record, emit func(Record)) error) Factory {
	return func() Operator { return &flatMap{fn: fn} }
}

type flatMap struct {
	fn   func(rec *Record, emit func(Record)) error
	out  *Batch
	emit func(Record) // appends to out
}

// Process implements Operator.
func (f *flatMap) Process(ctx *Context, in, out *Batch) error {
	if f.emit == nil {
		f.emit = func(r Record) { f.out.Records = append(f.out.Records, r) }
	}
	f.out = out
	for i := range in.Records {
		rec := &in.Records[i]
		before := len(out.Records)
		if err := f.fn(rec, f.emit); err != nil {
			out.Records = out.Records[:before]
			if err := ctx.Fail(rec, ClassOperator, err); err != nil {
				return err
			}
			continue
		}
		for j := before; j < len(out.Records); j++ {
			out.Records[j].Order, out.Records[j].StreamTime = rec.Order, rec.StreamTime
			out.Records[j].Shared = true
		}
	}
	return nil
}

// Case is one output of Branch.
type Case struct {
	Name string
	When func(rec *Record) (bool, error) // nil takes every record
}

// Branch sends every record to the output of the first case that takes it. A record that no case
// takes leaves the stream. A failing When fails the record; later cases are not asked.
func Branch(cases []Case) Factory {
	return func() Operator { return &branch{cases: cases} }
}

type branch struct {
	cases []Case
}

// Process implements Operator.
func (b *branch) Process(ctx *Context, in, _ *Batch) error {
	for i := range in.Records {
		rec := &in.Records[i]
		n, err := b.pick(rec)
		switch {
		case err != nil:
			if err := ctx.Fail(rec, ClassOperator, err); err != nil {
				return err
			}
		case n >= 0:
			ctx.Output(n).Append(rec)
		}
	}
	return nil
}

// pick returns the index of the case that takes rec, -1 for none.
func (b *branch) pick(rec *Record) (int, error) {
	for i := range b.cases {
		if b.cases[i].When == nil {
			return i, nil
		}
		ok, err := b.cases[i].When(rec)
		if err != nil {
			return 0, err
		}
		if ok {
			return i, nil
		}
	}
	return -1, nil
}

// NullKey says what becomes of a record whose new key is null.
type NullKey int8

// Choices for null keys.
const (
	// NullKeyFails treats the record as failed with class key: to the dead letters, or as
	// the policy of the step says.
	NullKeyFails NullKey = iota
	// NullKeyDrop counts the record as dropped.
	NullKeyDrop
	// NullKeySpread passes the record on without a key, over all partitions in turn.
	NullKeySpread
)

// SelectKey sets the key of every record. It does not move records: that is what a repartition
// topic behind it does.
func SelectKey(key func(rec *Record) ([]byte, error), null NullKey) Factory {
	return func() Operator { return &selectKey{key: key, null: null} }
}

type selectKey struct {
	key  func(rec *Record) ([]byte, error)
	null NullKey
}

var _ InPlace = (*selectKey)(nil)

// Process implements Operator.
func (s *selectKey) Process(ctx *Context, in, out *Batch) error {
	if err := s.ProcessInPlace(ctx, in); err != nil {
		return err
	}
	out.Records = append(out.Records, in.Records...)
	return nil
}

// ProcessInPlace implements InPlace.
func (s *selectKey) ProcessInPlace(ctx *Context, b *Batch) error {
	n := 0
	for i := range b.Records {
		rec := &b.Records[i]
		key, err := s.key(rec)
		switch {
		case err != nil:
			if err := ctx.Fail(rec, ClassOperator, err); err != nil {
				return err
			}
			continue
		case key == nil && s.null == NullKeyFails:
			if err := ctx.Fail(rec, ClassNullKey, ErrNullKey); err != nil {
				return err
			}
			continue
		case key == nil && s.null == NullKeyDrop:
			ctx.Stats().Dropped.Add(1)
			continue
		}
		if n != i {
			b.Records[n] = *rec
			rec = &b.Records[n]
		}
		rec.Key = key
		n++
	}
	b.Records = b.Records[:n]
	return nil
}
