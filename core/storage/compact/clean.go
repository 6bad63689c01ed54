package compact

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
)

// errMapTooSmall says that not even the first dirty batch fits into the offset map.
var errMapTooSmall = errors.New("the keys of one batch do not fit into the memory of compaction: " +
	"raise log.cleaner.dedupe.buffer.size")

// errFull ends the building of the offset map.
var errFull = errors.New("offset map is full")

// result is what one compaction of a log did.
type result struct {
	end                  int64 // everything before it is compacted now
	bytesRead            int64
	bytesBefore          int64 // of the segments that were replaced
	bytesAfter           int64 // of those that replaced them
	recordsRead          int64
	recordsKept          int64
	recordsWithoutKey    int64 // which were dropped
	segments, groups     int
	bufferUse            float64 // full part of the offset map
	mapTook, rewriteTook time.Duration
}

// run is the compaction of one log, for one goroutine.
type run struct {
	plan     plan
	config   storage.Config
	settings Settings
	cleaning *storage.Cleaning
	segments []storage.SegmentInfo // sealed, from the first to plan.upTo
	nowMS    int64
	pace     func(bytes int) error // waits until so many bytes may be moved
	result   result
	buf      []byte // reused for what stays of a batch
}

// clean compacts one log as planned.
func clean(ctx context.Context, p plan, s Settings, now time.Time, pace func(int) error,
) (result, error) {
	r := &run{plan: p, config: p.log.Config(), settings: s, nowMS: now.UnixMilli()}
	r.pace = func(n int) error { return errors.Join(ctx.Err(), pace(n)) }
	var err error
	if r.cleaning, err = p.log.StartCleaning(ctx, p.upTo); err != nil {
		return r.result, err
	}
	defer r.cleaning.Close()
	r.segments = r.cleaning.Segments()
	began := time.Now()
	offsets, err := r.buildMap()
	if err != nil {
		return r.result, err
	}
	r.result.end = offsets.Latest() + 1
	r.result.bufferUse = float64(offsets.Len()) / float64(offsets.limit)
	r.result.mapTook = time.Since(began)
	if p.log.CleanedOffset() < 0 {
		// Before the first hole: who looks at the files after a crash must see why there are some.
		if err := p.log.SetCleanedOffset(p.firstDirty); err != nil {
			return r.result, err
		}
	}
	if err := r.rewrite(offsets); err != nil {
		return r.result, err
	}
	r.result.rewriteTook = time.Since(began) - r.result.mapTook
	return r.result, p.log.SetCleanedOffset(r.result.end)
}

// bufferSize is how much of a segment is read at once, in bytes.
func (r *run) bufferSize() int { return max(r.settings.IOBufferBytes/r.settings.Threads/2, 4096) }

// recordsLimit bounds the decompression of one batch, in bytes, as reading by time does.
func (r *run) recordsLimit() int { return max(16*r.config.MaxMessageBytes, 64<<20) }

func (r *run) read(n int) error {
	r.result.bytesRead += int64(n)
	return r.pace(n)
}

// buildMap reads the dirty segments, as many as the memory takes.
func (r *run) buildMap() (*OffsetMap, error) {
	from, upTo := r.plan.firstDirty, r.plan.upTo
	m := NewOffsetMap(r.settings.DedupeBufferBytes/int64(r.settings.Threads),
		r.settings.LoadFactor, upTo-from)
	t := newTransactions()
	aborted, err := r.cleaning.Aborted(from, upTo)
	if err != nil {
		return nil, err
	}
	t.add(aborted)
	for i, s := range r.segments {
		if s.End <= from || s.Base >= upTo {
			continue
		}
		err := r.cleaning.EachBatch(i, from, r.bufferSize(), r.read, func(b record.Batch) error {
			return r.mapBatch(m, t, b)
		})
		if errors.Is(err, errFull) {
			break
		}
		if err != nil {
			return nil, err
		}
		m.Cover(min(s.End, upTo) - 1)
	}
	if m.Latest() < from {
		return nil, errMapTooSmall
	}
	return m, nil
}

func (r *run) mapBatch(m *OffsetMap, t *transactions, b record.Batch) error {
	switch {
	case b.IsControl():
		if _, _, err := t.marker(b); err != nil {
			return err
		}
	case !t.data(b):
		err := b.Each(r.recordsLimit(), func(rec *record.Record) error {
			if rec.Key == nil || rec.Offset < r.plan.firstDirty || m.Put(rec.Key, rec.Offset) {
				return nil
			}
			return errFull
		})
		if err != nil {
			return err
		}
	}
	if b.LastOffset() >= r.plan.firstDirty {
		m.Cover(b.LastOffset())
	}
	return nil
}

// rewrite replaces all segments that begin before the end of what the map covers.
func (r *run) rewrite(offsets *OffsetMap) error {
	n := 0
	for n < len(r.segments) && r.segments[n].Base < r.result.end {
		n++
	}
	f := &filter{offsets: offsets, transactions: newTransactions(), nowMS: r.nowMS,
		deleteRetentionMS: r.config.DeleteRetentionMS, limit: r.recordsLimit()}
	for _, g := range groups(r.segments[:n], &r.config) {
		if err := r.rewriteGroup(f, g); err != nil {
			return err
		}
		r.result.groups++
		r.result.segments += g.n
	}
	r.result.recordsRead, r.result.recordsKept = f.recordsRead, f.recordsKept
	r.result.recordsWithoutKey = f.dropped
	return nil
}

func (r *run) rewriteGroup(f *filter, g group) error {
	end, size := int64(-1), int64(0) // where the last batch of the group ends
	for _, s := range r.segments[g.first:][:g.n] {
		if size += s.Size; s.Size > 0 {
			end = s.Next
		}
	}
	if size == 0 {
		return nil
	}
	f.last = r.cleaning.LastRecords()
	written := int64(0)
	err := r.cleaning.Replace(g.first, g.n, func(w *storage.CleanWriter) error {
		for i := g.first; i < g.first+g.n; i++ {
			aborted, err := r.cleaning.Aborted(r.segments[i].Base, r.segments[i].End)
			if err != nil {
				return err
			}
			f.transactions.add(aborted)
			err = r.cleaning.EachBatch(i, r.segments[i].Base, r.bufferSize(), r.read,
				func(b record.Batch) error {
					n, err := r.rewriteBatch(f, w, b, b.NextOffset() == end)
					written += int64(n)
					return err
				})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.result.bytesBefore += size
	r.result.bytesAfter += written
	return nil
}

// rewriteBatch writes what stays of b. The last batch of a group stays, if need be empty: so the
// log has no hole between segments, which recovery could not tell from lost records, and the last
// batch of what was compacted is there, as Kafka has it.
func (r *run) rewriteBatch(f *filter, w *storage.CleanWriter, b record.Batch, last bool,
) (int, error) {
	out, aborted, err := f.batch(r.buf[:0], b, last)
	if err != nil {
		return 0, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	r.buf = out
	if aborted != nil {
		w.AppendAborted(*aborted)
	}
	if len(out) == 0 {
		return 0, nil
	}
	if err := r.pace(len(out)); err != nil {
		return 0, err
	}
	return len(out), w.Append(out)
}
