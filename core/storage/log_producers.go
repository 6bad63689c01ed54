package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// widenBytes is how much of the log before a snapshot is read at open for the batches a snapshot
// does not keep. Repeats come from requests in flight when the broker died, so from the very end.
const widenBytes = 16 << 20

// rebuildProducers returns the producer table at offset end: the newest snapshot that can be read,
// then the log from there.
func (l *Log) rebuildProducers(end int64) (producerTable, error) {
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return nil, err
	}
	list := *l.segments.Load()
	table, from := producerTable{}, list[0].base
	for _, at := range slices.Backward(offsets) {
		if at > end {
			continue
		}
		t, err := readSnapshot(l.fsys, l.dir(), at)
		if err == nil {
			table, from = t, max(from, at)
			break
		}
		if !errors.Is(err, ErrBadFile) {
			return nil, err
		}
		l.logger.Warn("producer snapshot ignored, reading more of the log instead",
			"partition", l.tp, "error", err)
	}
	now := l.clock()
	for _, p := range table {
		p.seenMS = now
	}
	if len(table) > 0 {
		if err := l.widenProducers(table, list, from, now); err != nil {
			return nil, err
		}
	}
	return table, l.replay(table, list, from, end, now)
}

// replay updates the table with the batches in [from, end).
func (l *Log) replay(t producerTable, list []*segment, from, end, now int64) error {
	for i, s := range list {
		if i+1 < len(list) && list[i+1].base <= from {
			continue
		}
		if s.base >= end {
			break
		}
		w := newHeaderWalk(s.log, 0, s.state().size, s.base)
		err := s.replayFrom(&w, t, from, end, now)
		w.close()
		if err != nil {
			return fmt.Errorf("read producers of %s: %w", l.tp, err)
		}
	}
	return nil
}

func (s *segment) replayFrom(w *headerWalk, t producerTable, from, end, now int64) error {
	var h batchHeader
	found, err := s.seek(w, &h, from)
	for err == nil && found && h.baseOffset < end {
		if h.baseOffset >= from {
			t.update(&h, now)
		}
		found, err = w.next(&h)
	}
	return err
}

// widenProducers reads up to widenBytes of the log before offset from, see producerTable.widen.
func (l *Log) widenProducers(t producerTable, list []*segment, from, now int64) error {
	first := len(list) - 1
	for budget := int64(widenBytes); first > 0 && budget > 0; first-- {
		if list[first].base < from {
			budget -= list[first].state().size
		}
	}
	old := producerTable{}
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
	if err := l.replay(old, list, start, from, now); err != nil {
		return err
	}
	t.widen(old)
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
