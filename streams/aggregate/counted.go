package aggregate

import (
	"encoding/binary"
	"fmt"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
)

// counted is the step of one task for count windows. A row has one span, whose accumulators come
// behind the number of records; the window is the span of their timestamps.
type counted struct {
	spanRows
	o    Options
	size uint64
	due  *expiry
}

func newCounted(o Options, f *folds) operator.Operator {
	x := &counted{spanRows: spanRows{folds: f}, o: o, size: uint64(o.Windows.Size)}
	return &stepper{step: x}
}

func (x *counted) prepare(ctx *operator.Context) error {
	x.rows = ctx.Store(x.o.Store)
	if x.o.Forget > 0 {
		x.due = newExpiry(x.o.Forget.Milliseconds(), ctx.Windows(x.o.due()))
	}
	return nil
}

func (x *counted) add(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	if ok, err := usable(ctx, rec, false); !ok {
		return err
	}
	if err := x.evaluate(rec); err != nil {
		return ctx.Fail(rec, operator.ClassOperator, err)
	}
	if err := x.get(rec.Key); err != nil {
		return err
	}
	if len(x.spans) > 0 && x.due != nil && x.due.expired(x.spans[0].ts, rec.StreamTime) {
		x.spans = x.spans[:0]
	}
	n, err := x.count(rec.Timestamp)
	if err != nil {
		return err
	}
	if err := x.folds.add(x.accs); err != nil {
		return ctx.Fail(rec, operator.ClassOperator, err)
	}
	s := x.spans[0]
	if n == x.size {
		x.spans = x.spans[:0]
	} else {
		x.spans[0].raw = x.append(binary.AppendUvarint(nil, n), x.accs)
	}
	if err := x.put(rec.Key); err != nil {
		return err
	}
	if x.due != nil && n < x.size {
		if err := x.due.mark(rec.Key, s.ts); err != nil {
			return err
		}
	}
	if x.o.Emit == OnClose && n < x.size {
		return nil
	}
	result := operator.Record{Key: rec.Key, Window: s.window(), Timestamp: s.ts,
		StreamTime: rec.StreamTime, Order: rec.Order}
	result.CausedBy(rec)
	return x.emit(ctx, out, result, x.accs)
}

// count reads the span of the row, or begins one, and counts a record at ts.
func (x *counted) count(ts int64) (n uint64, err error) {
	reset(x.accs)
	if len(x.spans) == 0 {
		x.spans = append(x.spans, span{start: ts, end: ts, ts: ts})
		return 1, nil
	}
	s := &x.spans[0]
	r := fields.Reader{Left: s.raw}
	n = r.Uvarint()
	x.read(&r, x.accs)
	if !r.Whole() {
		return 0, fmt.Errorf("decode %d bytes: %w", len(s.raw), errRow)
	}
	s.start, s.end, s.ts = min(s.start, ts), max(s.end, ts), max(s.ts, ts)
	return n + 1, nil
}

func (x *counted) advance(_ *operator.Context, s int64, _, _ *operator.Batch) error {
	if x.due == nil {
		return nil
	}
	return x.due.purge(s, func(key []byte, s int64) error {
		if err := x.get(key); err != nil {
			return err
		}
		if len(x.spans) == 0 || !x.due.expired(x.spans[0].ts, s) {
			return nil
		}
		x.spans = x.spans[:0]
		return x.put(key)
	})
}
