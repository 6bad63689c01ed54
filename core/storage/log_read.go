package storage

import (
	"fmt"
	"sort"
)

// Read returns whole batches from the one that holds offset on, at most maxBytes, none that reaches
// upTo or later, of one segment only. With minOne the first batch comes even if it is larger
// (KIP-74). An empty chunk says that nothing is there yet. The error is ErrOffsetOutOfRange outside
// [StartOffset, EndOffset].
func (l *Log) Read(offset int64, maxBytes int, upTo int64, minOne bool) (Chunk, error) {
	if err := l.readable(); err != nil {
		return Chunk{}, err
	}
	end := l.end.Load()
	if start := l.start.Load(); offset < start || offset > end {
		return Chunk{}, l.outOfRange(offset, start, end)
	}
	lim := readLimits{maxBytes: int64(max(maxBytes, 0)), upTo: min(upTo, end), minOne: minOne}
	none := Chunk{span: span{first: offset, next: offset}}
	for at := offset; at < lim.upTo; {
		s, err := l.segmentAt(at)
		if err != nil {
			return Chunk{}, err
		}
		sp, err := s.find(at, lim)
		if err == nil && sp.size > 0 {
			sp, err = l.intact(s, sp)
		}
		if err != nil || sp.size == 0 {
			s.release()
		}
		if err != nil {
			return Chunk{}, fmt.Errorf("read %s at %d: %w", l.tp, at, err)
		}
		if sp.size > 0 {
			return Chunk{segment: s, span: sp}, nil
		}
		if sp.next == at {
			return none, nil
		}
		next, ok := l.baseAfter(s.base)
		if !ok {
			return none, nil
		}
		at = max(next, sp.next)
	}
	return none, nil
}

func (l *Log) outOfRange(offset, start, end int64) error {
	return fmt.Errorf("%w: %s has offsets %d to %d, asked for %d",
		ErrOffsetOutOfRange, l.tp, start, end, offset)
}

// segmentAt returns the segment that would hold offset, acquired. ErrOffsetOutOfRange says that it
// was deleted meanwhile.
func (l *Log) segmentAt(offset int64) (*segment, error) {
	var seen *[]*segment
	for {
		list := l.segments.Load()
		i := sort.Search(len(*list), func(i int) bool { return (*list)[i].base > offset })
		if i > 0 && (*list)[i-1].acquire() {
			return (*list)[i-1], nil
		}
		if err := l.readable(); err != nil {
			return nil, err
		}
		if i == 0 {
			return nil, l.outOfRange(offset, l.start.Load(), l.end.Load())
		}
		if list == seen { // the log is being truncated, not only its oldest segments deleted
			return nil, fmt.Errorf("read %s at %d: %w", l.tp, offset, ErrClosed)
		}
		seen = list
	}
}

// baseAfter returns the base offset of the segment after the one at base; false if there is none.
func (l *Log) baseAfter(base int64) (int64, bool) {
	for _, s := range *l.segments.Load() {
		if s.base > base {
			return s.base, true
		}
	}
	return 0, false
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch (KIP-101, KIP-320): the largest known epoch that
// is not larger than the one asked for, and the offset after its last record. Unknown: (-1, -1).
func (l *Log) EndOffsetForEpoch(epoch int32) (foundEpoch int32, endOffset int64) {
	return l.epochs.Load().endOffset(epoch, l.end.Load())
}

// LatestEpoch returns the last leader epoch that wrote or was assigned, -1 if none.
func (l *Log) LatestEpoch() int32 { return l.epochs.Load().latest() }

// EpochAt returns the leader epoch in which the record at offset was written, -1 if not known.
func (l *Log) EpochAt(offset int64) int32 { return l.epochs.Load().at(offset) }
