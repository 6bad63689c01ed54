package storage

import (
	"errors"
	"fmt"
	"math"
)

// checkAborts holds the indexes of aborted transactions that were loaded against the log: they have
// no checksum, and a wrong entry would show an aborted transaction to who reads committed ones. An
// index with one is made anew. What is missing from an index is noticed by its number, see
// checkAbortCounts.
func (l *Log) checkAborts() error {
	list := *l.segments.Load()
	for i, s := range list {
		if s.mu.aborts.stale || s.mu.aborts.count.Load() == 0 {
			continue
		}
		err := l.checkAbortsOf(list[:i+1], s)
		if err != nil && !errors.Is(err, errTorn) {
			return err
		}
		if err != nil {
			l.logger.Warn("aborted transactions are read from the log", "partition", l.tp,
				"file", s.mu.aborts.name, "error", err)
			s.mu.aborts.stale = true
		}
	}
	return nil
}

// checkAbortsOf checks the entries of s, the last one of list; errTorn says that one is wrong.
func (l *Log) checkAbortsOf(list []*segment, s *segment) error {
	var entries []abortedTxn
	_, err := s.abortedBetween(0, math.MaxInt64, func(a *abortedTxn) { entries = append(entries, *a) })
	if err != nil {
		return err
	}
	if n := s.mu.aborts.count.Load(); int64(len(entries)) != n {
		return fmt.Errorf("%w: %d entries in order of %d", errTorn, len(entries), n)
	}
	stable := int64(0)
	for _, a := range entries {
		marker, err := s.batchAt(a.lastOffset)
		if err != nil {
			return err
		}
		first, known, err := l.firstBatch(list, a.firstOffset)
		switch {
		case err != nil:
			return err
		case marker.lastOffset() != a.lastOffset || !marker.isControl() ||
			marker.producerID != a.producerID:
			return fmt.Errorf("%w: no marker of producer %d at offset %d", errTorn, a.producerID,
				a.lastOffset)
		case known && (first.baseOffset != a.firstOffset || !first.isTransactional() ||
			first.producerID != a.producerID):
			return fmt.Errorf("%w: no transaction of producer %d begins at offset %d", errTorn,
				a.producerID, a.firstOffset)
		case a.lastStableOffset < stable || a.lastStableOffset > a.lastOffset+1:
			return fmt.Errorf("%w: last stable offset %d after %d at offset %d", errTorn,
				a.lastStableOffset, stable, a.lastOffset)
		}
		stable = a.lastStableOffset
	}
	return nil
}

// firstBatch returns the batch that holds an offset. It is not known in a part of the log that is
// gone, and where compaction may have removed it.
func (l *Log) firstBatch(list []*segment, offset int64) (h batchHeader, known bool, err error) {
	if offset < l.start.Load() || l.cleaned.Load() >= 0 || !l.known.Load() {
		return h, false, nil
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].base <= offset {
			h, err = list[i].batchAt(offset)
			return h, err == nil, err
		}
	}
	return h, false, nil
}

// batchAt returns the header of the first batch that ends at offset or later, an empty one if there
// is none.
func (s *segment) batchAt(offset int64) (h batchHeader, err error) {
	w := newHeaderWalk(s.log, 0, s.state().size, s.base)
	defer w.close()
	if found, err := s.seek(&w, &h, offset); err != nil || !found {
		return batchHeader{lastOffsetDelta: -1}, err
	}
	return h, nil
}
