package aggregate

import (
	"fmt"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/window"
)

// NewReader returns how the rows of an aggregate are read from outside, as results. Options must be
// valid; the functions in them are called for Result and Reducer only. It belongs to one goroutine.
func NewReader(o Options) operator.RowReader {
	r := &reader{o: o}
	f := newFolds(&o)
	r.spanRows = spanRows{folds: f}
	r.sliding = &sliding{spanRows: r.spanRows, o: o, size: o.Windows.Size,
		grace: o.Grace.Milliseconds(), other: make([]accumulator, len(f.fields))}
	return r
}

// reader reads rows of any kind of window.
type reader struct {
	spanRows
	o       Options
	sliding *sliding
}

// Seek implements operator.RowReader.
func (r *reader) Seek(key []byte) []byte { return key }

// Read implements operator.RowReader.
func (r *reader) Read(row operator.StoredRow, fn func(operator.Kept) error) error {
	rec := operator.Record{Key: row.Key}
	if r.o.aligned() {
		rec.Window = r.o.Windows.At(row.Start)
		if pane := r.o.pane(); pane > 0 { // what a window comes to is known when it closes
			rec.Window.End = row.Start + pane
		}
	}
	if r.o.aligned() || !r.o.windowed() {
		ts, err := r.decodeTime(row.Value)
		if err != nil || r.forgotten(ts, row.StreamTime) {
			return err
		}
		if err := r.decode(row.Value[8:], r.accs); err != nil {
			return err
		}
		rec.Timestamp = ts
		return r.tell(rec, fn)
	}
	if err := r.parse(row.Value); err != nil {
		return err
	}
	if r.o.Windows.Kind == window.Sliding {
		return r.readSliding(row, fn)
	}
	for i := range r.spans {
		s := &r.spans[i]
		f := fields.Reader{Left: s.raw}
		if r.o.Windows.Kind == window.Count {
			f.Uvarint() // how many there are so far
		}
		r.read(&f, r.accs)
		if !f.Whole() {
			return fmt.Errorf("decode %d bytes: %w", len(s.raw), errRow)
		}
		if r.forgotten(s.ts, row.StreamTime) {
			continue
		}
		rec.Window, rec.Timestamp = s.window(), s.ts
		if err := r.tell(rec, fn); err != nil {
			return err
		}
	}
	return nil
}

// forgotten reports whether a result is one that would be begun anew by the next record.
func (r *reader) forgotten(ts, s int64) bool {
	return r.o.Forget > 0 && (&expiry{ttl: r.o.Forget.Milliseconds()}).expired(ts, s)
}

// readSliding puts the open windows together that the instants of a row make. The instants of those
// that are closed may be gone in part.
func (r *reader) readSliding(row operator.StoredRow, fn func(operator.Kept) error) error {
	x := r.sliding
	x.spans = r.spans
	x.starts = x.starts[:0]
	for i := range x.spans {
		t := x.spans[i].start
		x.starts = append(x.starts, window.SlidingEndedBy(t, x.size), window.SlidingBegunBy(t))
	}
	x.starts = sortedOnce(x.starts)
	for _, start := range x.starts {
		if x.closeTime(start) <= row.StreamTime {
			continue
		}
		rec := operator.Record{Key: row.Key, Window: x.at(start)}
		n, err := x.combine(x.spans, start, &rec.Timestamp)
		if err != nil {
			return fmt.Errorf("window %s: %w", rec.Window, err)
		}
		if n == 0 {
			continue
		}
		if err := r.tell(rec, fn); err != nil {
			return err
		}
	}
	return nil
}

// tell gives the result that accs make.
func (r *reader) tell(rec operator.Record, fn func(operator.Kept) error) error {
	r.results(r.values, r.accs)
	if err := r.fill(&rec, r.values); err != nil {
		return fmt.Errorf("make result: %w", err)
	}
	return fn(operator.Kept{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp,
		Window: rec.Window})
}
