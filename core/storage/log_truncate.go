package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// TruncateTo removes the records at offset and later, for a follower whose leader never had them.
// A batch that holds offset goes as a whole, so that the end may be smaller than offset, but not
// than the start. It does nothing at or beyond the end; below the start it is ResetTo.
func (l *Log) TruncateTo(offset int64) error {
	if offset < l.start.Load() {
		return l.ResetTo(offset)
	}
	return l.rewind(func() error { return l.truncateWithToken(offset) })
}

// ResetTo empties the log and lets it begin anew at offset.
func (l *Log) ResetTo(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("reset %s to %d: %w", l.tp, offset, ErrOffsetOutOfRange)
	}
	return l.rewind(func() error { return l.resetWithToken(offset) })
}

// rewind runs fn, which moves the end back, with no sync going on.
func (l *Log) rewind(fn func() error) error {
	if err := l.Err(); err != nil {
		return err
	}
	l.unjournaled.Add(1)
	defer l.unjournaled.Add(-1)
	if err := l.owner.voidJournal(); err != nil {
		return fmt.Errorf("truncate %s: %w", l.tp, err)
	}
	defer l.claimSegments()()
	if err := l.takeToken(context.Background()); err != nil {
		return err
	}
	l.rewinds.Add(1)
	err := fn()
	l.giveToken()
	if err != nil {
		return fmt.Errorf("truncate %s: %w", l.tp, err)
	}
	l.notify()
	return nil
}

// truncateWithToken lowers the recovery point first, then cuts, then syncs the cut: a crash between
// leaves a log that recovery reads from before the cut.
func (l *Log) truncateWithToken(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset >= l.end.Load() {
		return nil
	}
	l.lowerSynced(offset)
	if err := l.owner.saveRecoveryPoints(); err != nil {
		return err
	}
	if err := l.lowerCleaned(offset); err != nil {
		return err
	}
	list := slices.Clone(*l.segments.Load())
	keep := len(list)
	for keep > 1 && list[keep-1].base >= offset {
		keep--
	}
	gone := list[keep:]
	list = list[:keep:keep]
	l.segments.Store(&list)
	for _, s := range gone {
		if err := l.retireSegment(s); err != nil {
			return l.diskError(err)
		}
	}
	end, err := l.cutSegment(list[keep-1], offset)
	if err != nil {
		return l.diskError(err)
	}
	if start := l.start.Load(); end < start {
		return l.resetLocked(start) // the batch held the start, too
	}
	return l.afterRewindLocked(end)
}

// cutSegment removes the batches of s that reach offset, makes s active, and returns the log's end.
func (l *Log) cutSegment(s *segment, offset int64) (int64, error) {
	if err := s.unseal(); err != nil {
		return 0, err
	}
	end, err := s.truncate(offset, int64(l.config.Load().IndexIntervalBytes))
	if err != nil {
		return 0, err
	}
	s.durable = false
	return end, s.sync()
}

// afterRewindLocked brings everything that depends on the end in line with it.
func (l *Log) afterRewindLocked(end int64) error {
	l.end.Store(end)
	if l.synced.Load() > end { // a batch in front of the offset went, too
		l.lowerSynced(end)
		if err := l.owner.saveRecoveryPoints(); err != nil {
			return err
		}
	}
	l.highWatermark.Store(min(l.highWatermark.Load(), end))
	l.mu.untrimmed = false
	if err := l.storeEpochsLocked(l.epochs.Load().truncateEnd(end)); err != nil {
		return err
	}
	if err := l.dropSnapshots(func(at int64) bool { return at > end }); err != nil {
		return l.diskError(err)
	}
	if err := l.syncNamesLocked(); err != nil {
		return err
	}
	state, err := l.rebuildProducers(end)
	if err != nil {
		return err
	}
	l.mu.producers, l.mu.txns = state.producers, state.txns
	l.countProducersLocked()
	l.mu.txns.settle(l.highWatermark.Load())
	l.publishUnstableLocked()
	return nil
}

func (l *Log) resetWithToken(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resetLocked(offset)
}

func (l *Log) resetLocked(offset int64) error {
	l.lowerSynced(offset)
	if err := l.owner.saveRecoveryPoints(); err != nil {
		return err
	}
	if err := l.lowerCleaned(offset); err != nil {
		return err
	}
	s, err := l.replaceSegments(offset)
	if err != nil {
		return l.diskError(err)
	}
	l.segments.Store(&[]*segment{s})
	l.start.Store(offset)
	if err := l.dropSnapshots(func(int64) bool { return true }); err != nil {
		return l.diskError(err)
	}
	l.mu.producers = producerTable{}
	l.countProducersLocked()
	l.epochs.Store(&epochList{})
	if err := l.afterRewindLocked(offset); err != nil {
		return err
	}
	l.setSynced(offset) // there is nothing to sync
	return l.owner.saveStartOffsets()
}

// replaceSegments retires all segments and makes an empty one.
func (l *Log) replaceSegments(offset int64) (*segment, error) {
	for _, s := range *l.segments.Load() {
		if err := l.retireSegment(s); err != nil {
			return nil, err
		}
	}
	return createSegment(l.fsys, l.dir(), offset, l.clock())
}

// unseal makes a sealed segment active again.
func (s *segment) unseal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.sealed {
		return nil
	}
	err := errors.Join(s.mu.offsets.load(), s.mu.times.load())
	if s.mu.aborts.entries == nil {
		torn := s.mu.aborts.load(s.base, s.mu.next)
		if s.mu.aborts.stale = errors.Is(torn, errTorn); !s.mu.aborts.stale {
			err = errors.Join(err, torn)
		}
	}
	if err != nil {
		return err
	}
	s.mu.sealed = false
	return nil
}

// truncate removes the batches that reach offset, from file, state and indexes, and returns the
// offset after what is left: offset, or the base of a batch that held it.
func (s *segment) truncate(offset, indexInterval int64) (int64, error) {
	w := newHeaderWalk(s.log, 0, s.state().size, s.base)
	defer w.close()
	var h batchHeader
	found, err := s.seek(&w, &h, offset)
	if err != nil {
		return 0, err
	}
	if !found {
		return offset, nil // what is left ends before offset
	}
	size := w.pos - h.size
	if err := s.log.Truncate(size); err != nil {
		return 0, fmt.Errorf("truncate %s to %d: %w", s.log.Name(), size, err)
	}
	s.checks.cut(size)
	if err := s.rebuildIndexes(size, indexInterval); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(offset, h.baseOffset), s.mu.aborts.truncate(h.baseOffset)
}
