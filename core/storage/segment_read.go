package storage

import (
	"errors"
	"fmt"
)

// span is a run of whole batches in a segment's file.
type span struct {
	pos, size   int64 // in bytes
	first, next int64 // offset of the first batch; offset after the last one
}

// readLimits bounds a read.
type readLimits struct {
	maxBytes int64
	upTo     int64 // no batch that reaches this offset or a later one
	minOne   bool  // the first batch even if it is larger than maxBytes
}

// find returns the whole batches from the one that holds offset on, within the limits. An empty
// span (size 0) with next > offset says that the segment ends before offset; with next == offset
// that the limits leave nothing.
func (s *segment) find(offset int64, lim readLimits) (span, error) {
	st := s.state()
	w := newHeaderWalk(s.log, 0, st.size, s.base)
	defer w.close()
	var h batchHeader
	found, err := s.seek(&w, &h, offset)
	if err != nil {
		return span{}, s.readError(err)
	}
	if !found {
		return span{first: offset, next: max(offset+1, st.next)}, nil
	}
	sp := span{pos: w.pos - h.size, size: h.size, first: h.baseOffset, next: h.nextOffset()}
	if sp.next > lim.upTo || h.size > lim.maxBytes && !lim.minOne {
		return span{first: offset, next: offset}, nil
	}
	last := sp.pos + lim.maxBytes // a cut must not lie behind it
	if lim.upTo >= st.next && last >= st.size {
		sp.size, sp.next = st.size-sp.pos, st.next
		return sp, nil
	}
	if err := s.extend(&w, &h, &sp, last, lim.upTo); err != nil {
		return span{}, s.readError(err)
	}
	return sp, nil
}

// extend moves the end of sp, which has its first batch, as far as last and upTo allow. The index
// gives a batch near the end, the rest is walked.
func (s *segment) extend(w *headerWalk, h *batchHeader, sp *span, last, upTo int64) error {
	from := w.pos
	e, ok, err := s.floorPosition(min(last, w.limit-1), w)
	if err != nil {
		return err
	}
	if rel := upTo - 1 - s.base; ok && rel < int64(e.rel) {
		if e, ok, err = s.floorOffset(rel, w); err != nil {
			return err
		}
	}
	if ok && int64(e.pos) > from {
		w.pos, w.min = int64(e.pos), s.base
		if found, err := w.next(h); err == nil && found && h.lastOffset()-s.base == int64(e.rel) {
			sp.size, sp.next = w.pos-h.size-sp.pos, h.baseOffset
		} else {
			w.pos, w.min = from, sp.next // the index is wrong: walk all the way
		}
	}
	for {
		if end := sp.pos + sp.size; w.pos > end && w.pos <= last && h.nextOffset() <= upTo {
			sp.size, sp.next = w.pos-sp.pos, h.nextOffset()
		} else if w.pos > end {
			return nil
		}
		if found, err := w.next(h); err != nil || !found {
			return err
		}
	}
}

// seek moves w behind the first batch with a last offset >= offset and puts its header into h;
// false if the segment has none.
func (s *segment) seek(w *headerWalk, h *batchHeader, offset int64) (bool, error) {
	e, ok, err := s.floorOffset(offset-s.base, w)
	if err != nil {
		return false, err
	}
	w.pos, w.min = 0, s.base
	if ok {
		w.pos = int64(e.pos)
		found, err := w.next(h)
		if err != nil || !found || h.lastOffset()-s.base != int64(e.rel) {
			w.pos, w.min = 0, s.base // the index is wrong: walk from the start
		} else if h.lastOffset() >= offset {
			return true, nil
		}
	}
	for {
		found, err := w.next(h)
		if err != nil || !found || h.lastOffset() >= offset {
			return found && err == nil, err
		}
	}
}

// floorOffset looks base+rel up in the offset index, with w's buffer as scratch space.
func (s *segment) floorOffset(rel int64, w *headerWalk) (offsetEntry, bool, error) {
	if rel < 0 {
		return offsetEntry{}, false, nil
	}
	rel = min(rel, 1<<32-1)
	w.bufSize = 0
	s.mu.Lock()
	if !s.mu.sealed {
		defer s.mu.Unlock()
		return s.mu.offsets.floorOffset(uint32(rel), nil)
	}
	s.mu.Unlock()
	return s.mu.offsets.floorOffset(uint32(rel), w.buf[:])
}

// floorPosition looks a file position up in the offset index, with w's buffer as scratch space.
func (s *segment) floorPosition(pos int64, w *headerWalk) (offsetEntry, bool, error) {
	w.bufSize = 0
	s.mu.Lock()
	if !s.mu.sealed {
		defer s.mu.Unlock()
		return s.mu.offsets.floorPosition(uint32(min(pos, 1<<32-1)), nil)
	}
	s.mu.Unlock()
	return s.mu.offsets.floorPosition(uint32(min(pos, 1<<32-1)), w.buf[:])
}

// timeBefore returns an offset in front of which no record has timestamp ts or later.
func (s *segment) timeBefore(ts int64, w *headerWalk) (int64, error) {
	w.bufSize = 0
	s.mu.Lock()
	var e timeEntry
	var ok bool
	var err error
	if !s.mu.sealed {
		e, ok, err = s.mu.times.before(ts, nil)
		s.mu.Unlock()
	} else {
		s.mu.Unlock()
		e, ok, err = s.mu.times.before(ts, w.buf[:])
	}
	if err != nil || !ok {
		return s.base, err
	}
	return s.base + int64(e.rel), nil
}

// readError marks damage met while reading.
func (s *segment) readError(err error) error {
	if errors.Is(err, errTorn) {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, s.log.Name(), err)
	}
	return err
}
