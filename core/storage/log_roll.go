package storage

import (
	"errors"
	"slices"
)

// rollIfDueLocked begins a new segment at offset base if the active one cannot take n more bytes
// that end at lastOffset.
func (l *Log) rollIfDueLocked(base, n, lastOffset, maxTimestamp int64, c *Config, now int64,
) error {
	reason := l.active().rollReason(c, n, lastOffset, maxTimestamp, now)
	if reason == "" {
		return nil
	}
	return l.rollLocked(base, reason, now)
}

// rollLocked seals the active segment and begins a new one at base. If the disk refuses, the log is
// as before.
func (l *Log) rollLocked(base int64, reason string, now int64) error {
	if !l.known.Load() {
		// From its second segment on, a log has a line in the checkpoint, so that a start can tell a
		// segment that lost its end from one that compaction has shortened elsewhere.
		if err := l.owner.saveRecoveryPoints(); err != nil {
			return l.diskError(err)
		}
	}
	old := l.active()
	s, err := createSegment(l.fsys, l.dir(), base, now)
	if err != nil {
		return l.diskError(err)
	}
	if l.config.Load().Preallocate {
		if err := s.reserve(l.config.Load().SegmentBytes); err != nil {
			return l.diskError(errors.Join(err, s.remove()))
		}
	}
	if err := old.seal(); err != nil {
		return l.diskError(errors.Join(err, s.remove()))
	}
	// The table is at the end of the log, which is base unless the leader's batches left a gap.
	if err := writeSnapshot(l.fsys, l.dir(), base, l.mu.producers); err != nil {
		l.logger.Warn("no producer snapshot at the roll, recovery will read more",
			"partition", l.tp, "offset", base, "error", err)
	}
	l.dirDirty.Store(true)
	list := append(slices.Clone(*l.segments.Load()), s)
	l.segments.Store(&list)
	l.owner.counters().Rolls.Add(1)
	l.logger.Debug("segment rolled", "partition", l.tp, "base", base, "reason", reason)
	return nil
}

// remove closes and unlinks the files of a segment that is in no list.
func (s *segment) remove() error {
	err := s.closeFiles()
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex} {
		err = errors.Join(err, removeIfExists(s.fsys, segmentFile(s.dir, s.base, suffix)))
	}
	return err
}
