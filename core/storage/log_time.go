package storage

import (
	"fmt"

	"github.com/millstream-io/millstream/core/record"
)

// Timestamped is a record found by its time.
type Timestamped struct {
	Timestamp   int64 // ms
	Offset      int64
	LeaderEpoch int32 // in which it was written
}

// OffsetForTimestamp returns the first record with a timestamp of ts or later, below upTo; false if
// there is none. It looks at records, not only at batches.
func (l *Log) OffsetForTimestamp(ts, upTo int64) (Timestamped, bool, error) {
	if err := l.readable(); err != nil {
		return Timestamped{}, false, err
	}
	upTo = min(upTo, l.end.Load())
	start := l.start.Load()
	for _, s := range *l.segments.Load() {
		if st := s.state(); st.maxTimestamp < ts || st.next <= start || s.base >= upTo {
			continue
		}
		if !s.acquire() {
			continue // deleted meanwhile
		}
		found, ok, err := s.findTime(ts, start, upTo, l.recordsLimit())
		s.release()
		if err != nil {
			return found, false, fmt.Errorf("look up time %d in %s: %w", ts, l.tp, err)
		}
		if ok {
			return found, true, nil
		}
	}
	return Timestamped{}, false, nil
}

// recordsLimit bounds the decompression of one stored batch, in bytes.
func (l *Log) recordsLimit() int { return max(16*l.config.Load().MaxMessageBytes, 64<<20) }

// findTime returns the first record in [from, upTo) with a timestamp of ts or later.
func (s *segment) findTime(ts, from, upTo int64, limit int) (Timestamped, bool, error) {
	w := newHeaderWalk(s.log, 0, s.state().size, s.base)
	defer w.close()
	at, err := s.timeBefore(ts, &w)
	if err != nil {
		return Timestamped{}, false, err
	}
	var h batchHeader
	found, err := s.seek(&w, &h, max(at, from))
	if at > s.base && at >= from && (err != nil || !found || h.lastOffset() != at ||
		h.maxTimestamp >= ts) {
		found, err = s.seek(&w, &h, from) // the time index is wrong: walk from the start
	}
	match := func(r record.Meta) bool {
		return r.Timestamp >= ts && r.Offset >= from && r.Offset < upTo
	}
	for ; err == nil && found && h.baseOffset < upTo; found, err = w.next(&h) {
		if h.maxTimestamp < ts {
			continue
		}
		r, ok, err := s.findRecord(w.pos-h.size, &h, limit, match)
		if err != nil || ok {
			return r, ok, err
		}
	}
	if err != nil {
		err = s.readError(err)
	}
	return Timestamped{}, false, err
}

// findRecord returns the first record that matches in the batch at pos.
func (s *segment) findRecord(pos int64, h *batchHeader, limit int, match func(record.Meta) bool,
) (Timestamped, bool, error) {
	b := make([]byte, h.size)
	if n, err := s.log.ReadAt(b, pos); n < len(b) {
		return Timestamped{}, false, fmt.Errorf("read %s at %d: %w", s.log.Name(), pos, err)
	}
	found, ok := Timestamped{}, false
	err := record.Batch(b).Scan(limit, func(m record.Meta) bool {
		if ok = match(m); ok {
			found = Timestamped{m.Timestamp, m.Offset, h.leaderEpoch}
		}
		return !ok
	})
	return found, ok, err
}

// MaxTimestamp returns the first record with the largest timestamp below upTo; false if there is no
// record with a timestamp.
func (l *Log) MaxTimestamp(upTo int64) (Timestamped, bool, error) {
	found, ok, err := l.maxTimestamp(upTo, false)
	if err == nil && !ok {
		// An index that Kafka wrote may name a batch that compaction has emptied.
		return l.maxTimestamp(upTo, true)
	}
	return found, ok, err
}

// maxTimestamp is MaxTimestamp by the indexes or, with walk, by all batches.
func (l *Log) maxTimestamp(upTo int64, walk bool) (Timestamped, bool, error) {
	if err := l.readable(); err != nil {
		return Timestamped{}, false, err
	}
	upTo = min(upTo, l.end.Load())
	start := l.start.Load()
	best, bestTime, bestOffset := (*segment)(nil), int64(-1), int64(-1)
	defer func() {
		if best != nil {
			best.release()
		}
	}()
	for _, s := range *l.segments.Load() {
		if s.base >= upTo || !s.acquire() {
			continue
		}
		ts, offset, err := s.maxTimestamp(start, upTo, walk)
		if err != nil || ts <= bestTime {
			s.release()
			if err != nil {
				return Timestamped{}, false, fmt.Errorf("largest time of %s: %w", l.tp, err)
			}
			continue
		}
		if best != nil {
			best.release()
		}
		best, bestTime, bestOffset = s, ts, offset
	}
	if best == nil {
		return Timestamped{}, false, nil
	}
	return best.recordOfTime(bestTime, bestOffset, start, upTo, l.recordsLimit())
}

// maxTimestamp returns the largest batch timestamp in [from, upTo) and the last offset of the first
// batch that has it; -1 if none.
func (s *segment) maxTimestamp(from, upTo int64, walk bool) (ts, offset int64, err error) {
	s.mu.Lock()
	ts, offset = s.mu.maxTimestamp, s.mu.maxTimestampOffset
	size := s.mu.size
	s.mu.Unlock()
	if offset < upTo && offset >= from && !walk {
		return ts, offset, nil
	}
	w := newHeaderWalk(s.log, 0, size, s.base)
	defer w.close()
	var h batchHeader
	ts, offset = -1, -1
	found, err := s.seek(&w, &h, from)
	for ; err == nil && found && h.nextOffset() <= upTo; found, err = w.next(&h) {
		if h.latest() > ts {
			ts, offset = h.latest(), h.lastOffset()
		}
	}
	return ts, offset, err
}

// recordOfTime returns the first record of time ts in the batch that ends at last.
func (s *segment) recordOfTime(ts, last, from, upTo int64, limit int) (Timestamped, bool, error) {
	w := newHeaderWalk(s.log, 0, s.state().size, s.base)
	defer w.close()
	var h batchHeader
	found, err := s.seek(&w, &h, last)
	if err != nil || !found {
		return Timestamped{}, false, err
	}
	return s.findRecord(w.pos-h.size, &h, limit, func(r record.Meta) bool {
		return r.Timestamp >= ts && r.Offset >= from && r.Offset < upTo
	})
}
