package compact

import (
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
)

// filter decides what stays of each batch, in one pass over a log's segments.
type filter struct {
	offsets           *OffsetMap
	transactions      *transactions
	last              map[int64]storage.LastRecord
	nowMS             int64
	deleteRetentionMS int64
	limit             int // of decompressed records, bytes

	iterator record.Iterator // reused
	kept     []record.Record // reused
	dropped  int64           // records that had no key; they cannot be compacted

	recordsRead, recordsKept int64
}

// batch appends what stays of b to dst. keepEmpty asks for b's header even if all records go.
// aborted is the aborted transaction whose marker b is, if its data is not all gone.
func (f *filter) batch(dst []byte, b record.Batch, keepEmpty bool) (out []byte,
	aborted *storage.AbortedRange, err error) {
	var gone, obsolete bool // all records may go; b is a marker without data
	if b.IsControl() {
		if obsolete, aborted, err = f.transactions.marker(b); err != nil {
			return dst, nil, err
		}
		gone = obsolete && b.HasDeleteHorizon() && b.BaseTimestamp() <= f.nowMS
	} else {
		gone = f.transactions.data(b)
	}
	f.recordsRead += int64(max(b.Count(), 0))
	keepEmpty = keepEmpty || f.isLastOfProducer(b)
	if gone || b.Count() == 0 {
		if keepEmpty {
			dst = b.AppendEmpty(dst)
		}
		return dst, aborted, nil
	}
	dst, err = f.records(dst, b, keepEmpty, obsolete)
	return dst, aborted, err
}

// records filters a batch by its keys.
func (f *filter) records(dst []byte, b record.Batch, keepEmpty, obsolete bool) ([]byte, error) {
	all, tombstones, err := f.retain(b)
	if err != nil {
		return dst, err
	}
	f.recordsKept += int64(len(f.kept))
	if len(f.kept) == 0 {
		if keepEmpty {
			dst = b.AppendEmpty(dst)
		}
		return dst, nil
	}
	horizon := int64(record.NoTimestamp)
	switch {
	case b.HasDeleteHorizon():
		horizon = b.BaseTimestamp()
	case tombstones || obsolete: // seen for the first time: readers get this long to see them
		horizon = f.nowMS + f.deleteRetentionMS
	}
	if all && (horizon < 0 || b.HasDeleteHorizon()) {
		return append(dst, b...), nil
	}
	return b.AppendRetained(dst, f.kept, horizon)
}

// retain fills f.kept with the records of b that stay. all says that none goes.
func (f *filter) retain(b record.Batch) (all, tombstones bool, err error) {
	f.kept = f.kept[:0]
	all = true
	if err := f.iterator.Reset(b, f.limit); err != nil {
		return false, false, err
	}
	var r record.Record
	for {
		more, err := f.iterator.Next(&r)
		if err != nil || !more {
			return all, tombstones, err
		}
		if !b.IsControl() && !f.keeps(b, &r) {
			all = false
			continue
		}
		if len(r.Headers) > 0 { // the iterator reuses the list, not what it names
			r.Headers = append([]record.Header(nil), r.Headers...)
		}
		tombstones = tombstones || r.Value == nil
		f.kept = append(f.kept, r)
	}
}

// keeps reports whether a data record stays: it is the last one of its key as far as the map
// knows, and no tombstone whose time has passed.
func (f *filter) keeps(b record.Batch, r *record.Record) bool {
	if r.Offset > f.offsets.Latest() {
		return true
	}
	if r.Key == nil {
		f.dropped++
		return false
	}
	if r.Offset < f.offsets.Get(r.Key) {
		return false
	}
	return r.Value != nil || !b.HasDeleteHorizon() || f.nowMS < b.BaseTimestamp()
}

// isLastOfProducer reports whether b holds the last sequence, or at least the epoch, by which the
// next batch of a live producer is judged.
func (f *filter) isLastOfProducer(b record.Batch) bool {
	if b.ProducerID() < 0 {
		return false
	}
	last, live := f.last[b.ProducerID()]
	switch {
	case !live:
		return false
	case last.DataOffset >= 0:
		return b.LastOffset() == last.DataOffset
	}
	return b.IsControl() && b.ProducerEpoch() == last.Epoch
}
