package join

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// NewForeignResult returns the factory of the step that makes the results. Its first input are the
// left rows, its second one the answers; its output are the changes of the joined table.
func NewForeignResult(o ForeignOptions) operator.Factory {
	return func() operator.Operator { return &foreignResult{o: o} }
}

// foreignResult keeps, for each left key, the left row as it is now and the result that came out.
type foreignResult struct {
	o       ForeignOptions
	results state.Store
	arena   operator.Arena
	buf     []byte // scratch
}

// foreignState is what is known of a left key. Slices alias the arena.
type foreignState struct {
	// row is the left row, nil when there is none; waits tells that it has a foreign key.
	row   []byte
	waits bool
	// emitted tells that a result is out: of the left row left and the right row right, which is
	// nil if there was none.
	emitted     bool
	left, right []byte
}

// Bits of a kept state.
const (
	stateRow = 1 << iota
	stateWaits
	stateEmitted
	stateRight
)

// Process implements operator.Operator.
func (f *foreignResult) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if f.results == nil {
		f.results = ctx.Store(f.o.Stores()[0].Name)
	}
	for i := range in.Records {
		rec := &in.Records[i]
		s, err := f.get(rec.Key)
		if err == nil {
			if rec.Input == right {
				err = f.answer(ctx, rec, &s, out)
			} else {
				err = f.change(ctx, rec, &s, out)
			}
		}
		if err != nil {
			return fmt.Errorf("join by foreign key in step %s: %w", ctx.Step(), err)
		}
	}
	return nil
}

// change takes a left row. What has a foreign key waits for its answer; the result stays as it is
// until then.
func (f *foreignResult) change(ctx *operator.Context, rec *operator.Record, s *foreignState,
	out *operator.Batch) error {
	s.row, s.waits = nil, false
	if rec.Value != nil {
		if len(rec.Value) < 1 {
			return fmt.Errorf("read left row: %w", errRow)
		}
		s.row, s.waits = rec.Value[1:], rec.Value[0] == 1
	}
	if s.waits {
		return f.put(rec.Key, s)
	}
	return f.settle(ctx, rec, s, nil, out)
}

// answer takes a right row, or that there is none, unless it answers for another left row.
func (f *foreignResult) answer(ctx *operator.Context, rec *operator.Record, s *foreignState,
	out *operator.Batch) error {
	r := fields.Reader{Left: rec.Value}
	hash, has := r.Fixed64(), r.Byte()
	if r.Failed() {
		return fmt.Errorf("read answer of %d bytes: %w", len(rec.Value), errRow)
	}
	if s.row == nil || !s.waits || hashOf(s.row) != hash {
		ctx.Stats().Ignored.Add(1)
		return nil
	}
	var row []byte
	if has == 1 {
		row = r.Left
	}
	return f.settle(ctx, rec, s, row, out)
}

// settle makes the result of the left row as it is and a right row, and emits it if it is another
// one than what is out.
func (f *foreignResult) settle(ctx *operator.Context, cause *operator.Record, s *foreignState,
	row []byte, out *operator.Batch) error {
	is := s.row != nil && (f.o.Kind == Left || row != nil)
	same := is == s.emitted && (!is || bytes.Equal(content(s.row), content(s.left)) &&
		bytes.Equal(content(row), content(s.right)) && (row == nil) == (s.right == nil))
	if same {
		return f.put(cause.Key, s)
	}
	var before, after *operator.Record
	var err error
	if s.emitted {
		before, err = f.make(cause.Key, s.left, s.right, operator.NoTime)
	}
	if err == nil && is {
		after, err = f.make(cause.Key, s.row, row, cause.Timestamp)
	}
	if err != nil {
		if err := ctx.Fail(cause, operator.ClassOperator, fmt.Errorf("make one row of two: %w",
			err)); err != nil {
			return err
		}
		return f.put(cause.Key, s)
	}
	s.emitted, s.left, s.right = is, s.row, row
	if !is {
		s.left, s.right = nil, nil
	}
	emitChange(cause, nil, before, after, out)
	return f.put(cause.Key, s)
}

// make joins a left row with a right one, or with nil.
func (f *foreignResult) make(key, l, r []byte, ts int64) (*operator.Record, error) {
	lrec := new(operator.Record)
	if err := load(lrec, key, l, &f.arena); err != nil {
		return nil, err
	}
	if r == nil {
		return pairOf(f.o.Join, lrec, nil, ts)
	}
	rrec := new(operator.Record)
	if err := load(rrec, nil, r, &f.arena); err != nil {
		return nil, err
	}
	return pairOf(f.o.Join, lrec, rrec, ts)
}

// get reads the state of a left key.
func (f *foreignResult) get(key []byte) (s foreignState, err error) {
	b, ok, err := f.results.Get(key)
	if err != nil || !ok {
		return s, err
	}
	r := fields.Reader{Left: f.arena.Copy(b)}
	bits := r.Byte()
	if bits&stateRow != 0 {
		s.row = r.Bytes()
	}
	s.waits, s.emitted = bits&stateWaits != 0, bits&stateEmitted != 0
	if s.emitted {
		s.left = r.Bytes()
	}
	if bits&stateRight != 0 {
		s.right = r.Bytes()
	}
	if !r.Whole() {
		return s, fmt.Errorf("read result of %d bytes: %w", len(b), errRow)
	}
	return s, nil
}

// put keeps the state of a left key, or forgets a key that has none.
func (f *foreignResult) put(key []byte, s *foreignState) error {
	if s.row == nil && !s.emitted {
		if err := f.results.Delete(key); err != nil {
			return fmt.Errorf("forget result: %w", err)
		}
		return nil
	}
	b := append(f.buf[:0], 0)
	if s.row != nil {
		b[0] |= stateRow
		b = append(binary.AppendUvarint(b, uint64(len(s.row))), s.row...)
	}
	if s.waits {
		b[0] |= stateWaits
	}
	if s.emitted {
		b[0] |= stateEmitted
		b = append(binary.AppendUvarint(b, uint64(len(s.left))), s.left...)
	}
	if s.right != nil {
		b[0] |= stateRight
		b = append(binary.AppendUvarint(b, uint64(len(s.right))), s.right...)
	}
	f.buf = b
	if err := f.results.Put(key, b); err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	return nil
}
