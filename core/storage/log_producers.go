package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/millstream-io/millstream/core/record"
)

// widenBytes is how much of the log before a snapshot is read at open for the batches a snapshot
// does not keep. Repeats come from requests in flight when the broker died, so from the very end.
const widenBytes = 16 << 20

// rebuildProducers returns the state of the producers at offset end: the newest snapshot that can
// be read, then the log from there. On the way it rebuilds the indexes of aborted transactions that
// are stale. As in Kafka, transactions that were decided before the snapshot count as settled, also
// if the high watermark is still behind their markers.
func (l *Log) rebuildProducers(end int64) (producerState, error) {
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return producerState{}, err
	}
	list := *l.segments.Load()
	table, from := producerTable{}, list[0].base
	newest := min(end, firstStale(list))
	for _, at := range slices.Backward(offsets) {
		// One from before the log's first segment, which a power cut while that was deleted may leave,
		// would miss the batches between: a transaction that ended there would be open for ever.
		if at > newest || at < from {
			continue
		}
		t, err := readSnapshot(l.fsys, l.dir(), at)
		if err == nil {
			table, from = t, at
			break
		}
		if !errors.Is(err, ErrBadFile) {
			return producerState{}, err
		}
		l.logger.Warn("broken producer snapshot removed, reading more of the log instead",
			"partition", l.tp, "error", err)
		name := segmentFile(l.dir(), at, suffixSnapshot)
		if err := removeIfExists(l.fsys, name); err != nil {
			l.logger.Warn("broken producer snapshot stays", "file", name, "error", err)
		}
	}
	now := l.clock()
	for _, p := range table {
		p.seenMS = now
	}
	if len(table) > 0 {
		if err := l.widenProducers(table, list, from, now); err != nil {
			return producerState{}, err
		}
	}
	state := newProducerState(table)
	if err := l.replay(&state, list, from, end, now); err != nil {
		return producerState{}, err
	}
	return state, l.storeRebuiltAborts(list)
}

// firstStale returns the base offset of the first segment whose aborted transactions must be read
// from the log.
func firstStale(list []*segment) int64 {
	for _, s := range list {
		if s.mu.aborts.stale {
			return s.base
		}
	}
	return math.MaxInt64
}

// replay updates the state with the batches in [from, end).
func (l *Log) replay(state *producerState, list []*segment, from, end, now int64) error {
	for i, s := range list {
		if i+1 < len(list) && list[i+1].base <= from {
			continue
		}
		if s.base >= end {
			break
		}
		if s.mu.aborts.stale && s.base > from {
			l.snapshotRecovered(s.base, state.producers)
		}
		found := func(abortedTxn) {}
		if s.mu.aborts.stale {
			s.mu.aborts.reset()
			found = s.addAborted
		}
		if err := s.replayFrom(state, from, end, now, found); err != nil {
			return fmt.Errorf("read producers of %s: %w", l.tp, err)
		}
	}
	return nil
}

// snapshotRecovered renews the snapshot at the head of a segment that was recovered: a power cut
// may have torn or lost it.
func (l *Log) snapshotRecovered(base int64, t producerTable) {
	if err := writeSnapshot(l.fsys, l.dir(), base, t); err != nil {
		l.logger.Warn("no producer snapshot of a recovered segment, the next start will read more",
			"partition", l.tp, "offset", base, "error", err)
	}
}

// replayFrom updates the state with the batches of s in [from, end) and calls fn with the
// transactions that abort there.
func (s *segment) replayFrom(
	state *producerState, from, end, now int64, fn func(abortedTxn),
) error {
	w := newHeaderWalk(s.log, 0, s.state().size, s.base)
	defer w.close()
	var h batchHeader
	found, err := s.seek(&w, &h, from)
	for ; err == nil && found && h.baseOffset < end; found, err = w.next(&h) {
		if h.baseOffset < from || h.producerID < 0 {
			continue
		}
		var b record.Batch
		if h.isControl() {
			if b, err = w.controlBatch(&h); err != nil {
				return err
			}
		}
		a, aborted, err := applyBatch(state.producers, &state.txns, &h, b, now)
		if err != nil {
			return err
		}
		if aborted {
			fn(a)
		}
	}
	return err
}

// storeRebuiltAborts brings the files of the indexes that were stale in line with what the replay
// found. Those of sealed segments are replaced at once; the active one follows with its next sync.
func (l *Log) storeRebuiltAborts(list []*segment) error {
	for i, s := range list {
		s.mu.Lock()
		stale := s.mu.aborts.stale
		s.mu.aborts.stale = false
		s.mu.Unlock()
		if !stale {
			continue
		}
		if i+1 == len(list) {
			if f := s.mu.aborts.file; f != nil {
				if err := f.Truncate(0); err != nil {
					return fmt.Errorf("truncate %s: %w", f.Name(), err)
				}
			}
			continue
		}
		// On a full disk the entries stay in memory. What the file had is either found to be wrong
		// again by the next start, or Log.syncWithToken waits for it.
		if err := s.rewriteAborts(); err != nil && !isRefused(err) {
			return err
		}
	}
	return nil
}

// rewriteAborts puts the aborted transactions of a sealed segment into the file and, if that
// worked, out of memory.
func (s *segment) rewriteAborts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.aborts.rewrite(s.fsys); err != nil {
		return err
	}
	s.mu.aborts.seal()
	return nil
}

// flushSealedAborts is rewriteAborts if that could not be done when the log was opened.
func (s *segment) flushSealedAborts() error {
	s.mu.Lock()
	pending := s.mu.aborts.entries != nil
	s.mu.Unlock()
	if !pending {
		return nil
	}
	return s.rewriteAborts()
}

// widenProducers reads up to widenBytes of the log before offset from, see producerTable.widen.
func (l *Log) widenProducers(t producerTable, list []*segment, from, now int64) error {
	first := len(list) - 1
	for budget := int64(widenBytes); first > 0 && budget > 0; first-- {
		if list[first].base < from {
			budget -= list[first].state().size
		}
	}
	old := producerState{producers: producerTable{}}
	start := list[first].base
	if s := list[first]; s.state().size > widenBytes {
		w := newHeaderWalk(s.log, 0, s.state().size, s.base)
		e, ok, err := s.floorPosition(s.state().size-widenBytes, &w)
		w.close()
		if err != nil {
			return err
		}
		if ok {
			start += int64(e.rel)
		}
	}
	if err := l.replay(&old, list, start, from, now); err != nil {
		return err
	}
	t.widen(old.producers)
	return nil
}

// snapshotOffsets lists the offsets of the .snapshot files, in order.
func (l *Log) snapshotOffsets() ([]int64, error) {
	entries, err := l.fsys.ReadDir(l.dir())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", l.dir(), err)
	}
	var offsets []int64
	for _, e := range entries {
		if base, suffix, ok := parseSegmentFile(e.Name()); ok && suffix == suffixSnapshot {
			offsets = append(offsets, base)
		}
	}
	slices.SortFunc(offsets, cmp.Compare[int64])
	return offsets, nil
}

// dropSnapshots removes the snapshots whose offset is unwanted.
func (l *Log) dropSnapshots(unwanted func(offset int64) bool) error {
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return err
	}
	for _, at := range offsets {
		if !unwanted(at) {
			continue
		}
		err := l.fsys.Remove(segmentFile(l.dir(), at, suffixSnapshot))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove producer snapshot %d of %s: %w", at, l.tp, err)
		}
	}
	return nil
}

// dropBrokenSnapshots removes those that a power cut left without their bytes: they are written
// without a sync, since the log has all that is in them.
func (l *Log) dropBrokenSnapshots() error {
	return l.dropSnapshots(func(at int64) bool {
		_, err := readSnapshot(l.fsys, l.dir(), at)
		return errors.Is(err, ErrBadFile)
	})
}

// dropStraySnapshots keeps the snapshots of live segments and the newest one.
func (l *Log) dropStraySnapshots() error {
	offsets, err := l.snapshotOffsets()
	if err != nil || len(offsets) == 0 {
		return err
	}
	keep := map[int64]bool{offsets[len(offsets)-1]: true}
	for _, s := range *l.segments.Load() {
		keep[s.base] = true
	}
	return l.dropSnapshots(func(at int64) bool { return !keep[at] })
}
