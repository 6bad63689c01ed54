package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// segmentSuffixes are the files that go when a segment goes.
var segmentSuffixes = []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex,
	suffixSnapshot}

// deleteExpired deletes the segments that retention.ms, retention.bytes and the start offset make
// superfluous, oldest first, never beyond the high watermark. It returns how many.
func (l *Log) deleteExpired(now int64) (int, error) {
	if err := l.Err(); err != nil {
		return 0, err
	}
	defer l.claimSegments()()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return 0, nil
	}
	c := l.config.Load()
	list := *l.segments.Load()
	n := l.countExpired(list, c, now)
	if n == len(list) {
		if err := l.rollLocked(l.end.Load(), "retention", now); err != nil {
			return 0, err
		}
	}
	return n, l.dropOldestLocked(n)
}

// countExpired returns how many segments at the head of list may go.
func (l *Log) countExpired(list []*segment, c *Config, now int64) int {
	limit := min(l.highWatermark.Load(), l.end.Load())
	excess := int64(0)
	if c.RetentionBytes >= 0 {
		for _, s := range list {
			excess += s.state().size
		}
		excess -= c.RetentionBytes
	}
	for i, s := range list {
		st, end := s.state(), l.end.Load()
		if i+1 < len(list) {
			end = list[i+1].base
		}
		if end > limit || i+1 == len(list) && st.size == 0 {
			return i
		}
		expired := end <= l.start.Load() && i+1 < len(list)
		if c.Delete {
			expired = expired || c.RetentionMS >= 0 && now-l.lastTime(s, st) > c.RetentionMS ||
				c.RetentionBytes >= 0 && excess-st.size >= 0
		}
		if !expired {
			return i
		}
		excess -= st.size
	}
	return len(list)
}

// lastTime is the largest record timestamp, or when the file was last written if there is none.
func (l *Log) lastTime(s *segment, st segmentState) int64 {
	if st.maxTimestamp >= 0 {
		return st.maxTimestamp
	}
	info, err := l.fsys.Stat(segmentFile(l.dir(), s.base, suffixLog))
	if err != nil {
		return s.createdMS
	}
	return info.ModTime().UnixMilli()
}

// dropOldestLocked removes the first n segments: the start moves, then the files are renamed, and
// unlinked after file.delete.delay.ms. Readers that have a segment keep its open files.
func (l *Log) dropOldestLocked(n int) error {
	if n == 0 {
		return nil
	}
	old := *l.segments.Load()
	list := old[n:len(old):len(old)]
	// Names may reach the disk in any order. The segments that stay must be there before the first
	// one goes, and the older ones must go first: a power cut must not leave a hole, or nothing.
	if err := l.syncNamesLocked(); err != nil {
		return err
	}
	start := max(l.start.Load(), list[0].base)
	l.start.Store(start)
	l.publishUnstableLocked()
	l.segments.Store(&list)
	var err error
	if epochs := l.epochs.Load().truncateStart(start); !slices.Equal(epochs, *l.epochs.Load()) {
		err = l.storeEpochsLocked(epochs)
	}
	l.dirDirty.Store(true)
	for i, s := range old[:n] {
		size := s.state().size
		gone, retireErr := l.retireFiles(s, segmentSuffixes)
		if gone {
			i++
			l.owner.counters().ExpiredSegments.Add(1)
			l.owner.counters().ExpiredBytes.Add(size)
		}
		if retireErr == nil && i < n {
			retireErr = l.syncNamesLocked()
		}
		if retireErr != nil {
			// Those after it must be there as long as it may be. The next time goes on from here.
			back := old[i:len(old):len(old)]
			l.segments.Store(&back)
			return errors.Join(err, retireErr)
		}
	}
	return err
}

// syncNamesLocked makes the names in the directory durable.
func (l *Log) syncNamesLocked() error {
	err := syncDir(l.fsys, l.dir())
	switch {
	case err == nil:
		return nil
	case isRefused(err):
		return refused(err)
	}
	l.owner.fail(err)
	return l.owner.failure()
}

// retireSegment renames the files of a segment that left the list, .log first, and has them
// unlinked later.
func (l *Log) retireSegment(s *segment) error {
	_, err := l.retireFiles(s, segmentSuffixes)
	return err
}

// retireFiles is retireSegment for some of the files. If not gone, nothing has happened.
func (l *Log) retireFiles(s *segment, suffixes []string) (gone bool, err error) {
	var errs []error
	for _, suffix := range suffixes {
		name := segmentFile(l.dir(), s.base, suffix)
		err := renamePatiently(l.fsys, name, name+suffixDeleted)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			err = l.diskError(fmt.Errorf("retire %s: %w", name, err))
			if suffix == suffixLog {
				return false, err
			}
			errs = append(errs, err)
			continue
		}
		l.owner.removeLater(name+suffixDeleted, l.config.Load().FileDeleteDelayMS)
		if suffix == suffixLog && s.mu.aborts.count.Load() > 0 {
			// The log must be gone before the list of its aborted transactions: after a power cut that
			// kept only the other rename, read committed would see them.
			errs = append(errs, l.syncNamesLocked())
		}
	}
	s.release()
	return true, errors.Join(errs...)
}

// expireProducers forgets idle producers and verifications. The wall clock has jumped by so many ms
// since the last call.
func (l *Log) expireProducers(now, jumpMS, maxIdleMS int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.producers.expire(now, jumpMS, maxIdleMS)
	l.countProducersLocked()
	l.mu.guards.expire(now, jumpMS, maxIdleMS)
}

// sinceJump is when something was seen, by a clock that has jumped since: who was there before a
// jump is not idle for its length. What was seen after it may pass for younger, never for older.
func sinceJump(seenMS, jumpMS, nowMS int64) int64 {
	return min(seenMS+max(jumpMS, 0), nowMS)
}

// DeleteRecordsBefore moves the start of the log to offset, durably, and deletes segments that lie
// below it. An offset at or before the start changes nothing. The error is ErrOffsetOutOfRange
// beyond the end.
func (l *Log) DeleteRecordsBefore(offset int64) error {
	if err := l.Err(); err != nil {
		return err
	}
	moved, err := l.raiseStart(offset)
	if err != nil || !moved {
		return err
	}
	if err := l.owner.saveStartOffsets(); err != nil {
		return fmt.Errorf("delete records of %s before %d: %w", l.tp, offset, err)
	}
	l.startSaved(offset)
	defer l.claimSegments()()
	l.mu.Lock()
	defer l.mu.Unlock()
	list, n := *l.segments.Load(), 0
	for n+1 < len(list) && list[n+1].base <= offset {
		n++
	}
	if err := l.dropOldestLocked(n); err != nil {
		return fmt.Errorf("delete records of %s before %d: %w", l.tp, offset, err)
	}
	return nil
}

func (l *Log) raiseStart(offset int64) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	start, end := l.start.Load(), l.end.Load()
	if offset > end {
		return false, l.outOfRange(offset, start, end)
	}
	if offset <= start {
		return l.mu.startUnsaved, nil
	}
	l.mu.startUnsaved = true
	l.start.Store(offset)
	l.publishUnstableLocked()
	return true, nil
}

// startSaved notes that a start at offset or later is on the disk.
func (l *Log) startSaved(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.startUnsaved = l.mu.startUnsaved && l.start.Load() > offset
}
