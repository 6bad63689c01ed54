package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/vfs"
)

// indexInterval is the spacing of index entries that recovery rebuilds, in bytes: the default,
// since a log is opened before its topic's configuration is known.
const indexInterval = 4096

// openParams is what the data directory knows of a log before it is opened.
type openParams struct {
	clean         bool        // the directory was closed in order
	recoveryPoint int64       // below it everything was synced
	startOffset   int64       // of the log, from the checkpoint
	highWatermark int64       // from the checkpoint
	cleanedOffset int64       // from the checkpoint; holes between segments below it are legal
	aborts        abortCounts // from the list of aborted transactions
	// known says that recoveryPoint is from the checkpoint. If not, and there are several segments,
	// they were copied from elsewhere, and holes between them are of a compaction; see rollLocked.
	known bool
	// syncLater says that the caller syncs all logs together, see Dir.syncRecovered.
	syncLater bool
	progress  *progress // of the recovery; nil if nobody wants to know
}

// open loads or recovers the files in the log's directory. Afterwards everything in the log is
// synced. An error leaves the log offline, see Log.Err, and its files as they were.
func (l *Log) open(p openParams) error {
	// The checkpoints of a log that cannot be opened must stay as they are.
	l.setSynced(p.recoveryPoint)
	l.start.Store(p.startOffset)
	l.highWatermark.Store(p.highWatermark)
	l.cleaned.Store(p.cleanedOffset)
	l.known.Store(p.known)
	if err := l.readTopicID(); err != nil {
		return err
	}
	bases, err := l.cleanDirectory()
	if err != nil {
		return err
	}
	list, epochs, err := l.openSegments(bases, p)
	l.segments.Store(&list)
	if err != nil {
		return err
	}
	return l.finishOpen(p, epochs)
}

// finishOpen derives the rest of the state from the segments.
func (l *Log) finishOpen(p openParams, scanned epochList) error {
	l.end.Store(l.active().state().next)
	first := (*l.segments.Load())[0].base
	l.start.Store(max(p.startOffset, first))
	if err := l.readEpochs(scanned); err != nil {
		return err
	}
	if err := l.dropSnapshots(func(at int64) bool { return at > l.end.Load() }); err != nil {
		return err
	}
	if !p.clean {
		if err := l.dropBrokenSnapshots(); err != nil {
			return err
		}
	}
	l.checkAbortCounts(p.aborts)
	if err := l.checkAborts(); err != nil {
		return err
	}
	state, err := l.rebuildProducers(l.end.Load())
	if err != nil {
		return err
	}
	l.mu.producers, l.mu.txns = state.producers, state.txns
	l.countProducersLocked()
	if err := l.dropStraySnapshots(); err != nil {
		return err
	}
	l.highWatermark.Store(min(max(p.highWatermark, l.start.Load()), l.end.Load()))
	l.mu.txns.settle(l.highWatermark.Load())
	l.publishUnstableLocked()
	l.setSynced(min(p.recoveryPoint, l.end.Load()))
	if err := l.syncOpened(p); err != nil {
		return err
	}
	if l.start.Load() > l.end.Load() {
		l.logger.Warn("log ends before its start offset, it begins anew there",
			"partition", l.tp, "start", l.start.Load(), "end", l.end.Load())
		return l.ResetTo(l.start.Load())
	}
	return nil
}

// syncOpened makes what recovery found durable. On a full disk an index may have to wait for that.
func (l *Log) syncOpened(p openParams) error {
	if p.clean {
		l.setSynced(l.end.Load())
		return nil
	}
	l.dirDirty.Store(true)
	if p.syncLater {
		return nil
	}
	_, err := l.syncWithToken()
	if errors.Is(err, ErrNoSpace) || errors.Is(err, ErrNoFiles) {
		l.logger.Warn("recovered log is not synced yet", "partition", l.tp, "error", err)
		return nil
	}
	if err == nil {
		l.setSynced(l.end.Load())
	}
	return err
}

// syncedAfterOpen does what syncOpened left for later. With whole, all that was written is on the
// disk; what could not be written on a full disk is not.
func (l *Log) syncedAfterOpen(whole bool) error {
	list := *l.segments.Load()
	for _, s := range list[:len(list)-1] {
		whole = whole && s.isSealed()
	}
	if !whole {
		return l.syncOpened(openParams{})
	}
	for _, s := range list[:len(list)-1] {
		s.durable = true
	}
	l.dirDirty.Store(false)
	l.setSynced(l.end.Load())
	return nil
}

// isSealed reports whether all of the segment's indexes are in their files.
func (s *segment) isSealed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.sealed && s.mu.aborts.entries == nil
}

// readTopicID reads partition.metadata. A directory without it belongs to no topic yet.
func (l *Log) readTopicID() error {
	name := filepath.Join(l.dir(), filePartitionMetadata)
	data, err := vfs.ReadFile(l.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	id, err := parsePartitionMetadata(data)
	if err != nil && l.hasRecords() {
		return fmt.Errorf("read %s: %w; nobody knows which topic's records these are: stop and write "+
			"it anew with the topic's id, as the topic's other partitions have it", name, err)
	}
	if err == nil { // else its creation was not finished
		l.topicID.Store(&id)
	}
	return nil
}

// hasRecords reports whether any .log file in the directory has bytes, or cannot be looked at.
func (l *Log) hasRecords() bool {
	entries, err := l.fsys.ReadDir(l.dir())
	for _, e := range entries {
		if _, suffix, ok := parseSegmentFile(e.Name()); !ok || suffix != suffixLog {
			continue
		}
		info, statErr := l.fsys.Stat(filepath.Join(l.dir(), e.Name()))
		if statErr != nil || info.Size() > 0 {
			return true
		}
	}
	return err != nil
}

func (l *Log) writeTopicID(id uuid.UUID) error {
	name := filepath.Join(l.dir(), filePartitionMetadata)
	if err := vfs.WriteFileAtomic(l.fsys, name, formatPartitionMetadata(id), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	l.topicID.Store(&id)
	return nil
}

// cleanDirectory removes what an earlier life did not finish and returns the segments' base offsets
// in order.
func (l *Log) cleanDirectory() ([]int64, error) {
	if err := l.finishSwaps(); err != nil {
		return nil, err
	}
	entries, err := l.fsys.ReadDir(l.dir())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", l.dir(), err)
	}
	var bases []int64
	indexes := map[string]int64{}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(l.dir(), name)
		if transient(name) {
			if err := removeIfExists(l.fsys, path); err != nil {
				return nil, fmt.Errorf("remove left-over %s: %w", path, err)
			}
			continue
		}
		base, suffix, ok := parseSegmentFile(name)
		switch {
		case ok && suffix == suffixLog:
			bases = append(bases, base)
		case ok && (suffix == suffixIndex || suffix == suffixTimeIndex || suffix == suffixTxnIndex):
			indexes[path] = base
		}
	}
	slices.SortFunc(bases, cmp.Compare[int64])
	for path, base := range indexes {
		if _, has := slices.BinarySearch(bases, base); !has {
			if err := removeIfExists(l.fsys, path); err != nil {
				return nil, fmt.Errorf("remove index without a log %s: %w", path, err)
			}
		}
	}
	return bases, nil
}

// openSegments opens the segments in order and recovers those that reach beyond the recovery point
// or do not fit together. What follows a cut, or a segment that lost unsynced batches at its end,
// is retired. It returns the epochs that it saw in the recovered ones.
func (l *Log) openSegments(bases []int64, p openParams) ([]*segment, epochList, error) {
	var list []*segment
	var epochs epochList
	now := l.clock()
	if len(bases) == 0 {
		s, err := createSegment(l.fsys, l.dir(), p.startOffset, now)
		if err != nil {
			return nil, nil, err
		}
		l.dirDirty.Store(true)
		return []*segment{s}, nil, nil
	}
	for i, base := range bases {
		s, err := openSegmentFiles(l.fsys, l.dir(), base, now)
		if err != nil {
			return list, epochs, err
		}
		list = append(list, s)
		last := i+1 == len(bases)
		// One that ends at the recovery point may have been active when that was synced, and its
		// indexes written later.
		dirty := !p.clean && (last || bases[i+1] >= p.recoveryPoint)
		res, err := l.openSegment(s, dirty, p)
		if err != nil {
			return list, epochs, err
		}
		for _, e := range res.epochs {
			epochs = epochs.extend(e.epoch, e.start)
		}
		after := bases[min(i+1, len(bases)-1)]
		lost := s.state().next < after && after > p.cleanedOffset && p.known
		if !last && dirty && (res.torn > 0 || lost) {
			return list, epochs, l.retireAfter(bases[i+1:], s)
		}
		if !last {
			err := s.seal()
			if err != nil && !isRefused(err) {
				return list, epochs, err
			}
			// On a full disk, rebuilt indexes stay in memory, and the next start rebuilds them.
			s.durable = !dirty && err == nil
		}
	}
	return list, epochs, nil
}

// openSegment loads a segment, or recovers it if it is dirty or its files do not fit together.
func (l *Log) openSegment(s *segment, dirty bool, p openParams) (recovered, error) {
	if !dirty {
		err := s.load()
		if err == nil || !errors.Is(err, errTorn) {
			return recovered{}, err
		}
		l.logger.Warn("segment is read anew, its files do not fit together",
			"partition", l.tp, "base", s.base, "error", err)
	}
	res, err := s.recover(indexInterval, p.progress, func(r recovered) error {
		return l.mayCut(s, r, p)
	})
	s.reserved = s.state().size >= aheadLeast // by the process that did not stop cleanly
	if err != nil {
		return res, err
	}
	if res.torn > 0 {
		level := slog.LevelWarn
		if res.zero {
			level = slog.LevelInfo
		}
		l.logger.Log(context.Background(), level, "torn tail cut off", "partition", l.tp, "base", s.base,
			"position", res.size, "bytes", res.torn, "zero", res.zero, "next", s.state().next,
			"cause", res.cause)
	}
	return res, nil
}

// mayCut refuses to cut bytes that were synced once: those did not tear, they rotted, and cutting
// would lose what follows them.
func (l *Log) mayCut(s *segment, r recovered, p openParams) error {
	next := s.mu.next
	if next < p.recoveryPoint || p.clean && !r.zero || r.disorder {
		return fmt.Errorf("%w: %s at %d is no intact batch (%w), but offset %d was on disk; "+
			"restore the file from a replica or backup, or, to keep only what is before, stop "+
			"and remove the partition's line from %s", ErrDamaged, s.log.Name(), r.size, r.cause,
			next, fileRecoveryPoints)
	}
	return nil
}

// retireAfter renames away the segments behind a cut: their records follow a hole.
func (l *Log) retireAfter(bases []int64, cut *segment) error {
	for _, base := range bases {
		s, err := openSegmentFiles(l.fsys, l.dir(), base, l.clock())
		if err != nil {
			return err
		}
		l.logger.Warn("segment behind a torn one is removed", "partition", l.tp, "base", base,
			"end", cut.state().next)
		if err := l.retireSegment(s); err != nil {
			return err
		}
	}
	return nil
}

// readEpochs reads the leader epochs and brings them in line with the log: the file may be behind
// or ahead of what a crash left, or broken, in which case the log itself is asked.
func (l *Log) readEpochs(scanned epochList) error {
	name := filepath.Join(l.dir(), fileEpochs)
	data, err := vfs.ReadFile(l.fsys, name)
	list, broken := epochList(nil), false
	if err == nil {
		list, err = parseEpochs(data)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		broken = l.end.Load() > (*l.segments.Load())[0].base
	case errors.Is(err, ErrBadFile):
		l.logger.Warn("leader epochs are read from the log", "partition", l.tp, "error", err)
		broken = true
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	}
	if broken {
		if scanned, err = l.scanEpochs(); err != nil {
			return err
		}
	}
	found := list
	list = list.truncateEnd(l.end.Load())
	for _, e := range scanned {
		list = list.extend(e.epoch, e.start)
	}
	list = list.truncateStart(l.start.Load())
	if slices.Equal(found, list) && !broken {
		l.epochs.Store(&list)
		return nil
	}
	return l.storeEpochsLocked(list)
}

// scanEpochs reads the leader epochs from all batch headers.
func (l *Log) scanEpochs() (epochList, error) {
	var list epochList
	for _, s := range *l.segments.Load() {
		w := newHeaderWalk(s.log, 0, s.state().size, s.base)
		var h batchHeader
		found, err := w.next(&h)
		for err == nil && found {
			list = list.extend(h.leaderEpoch, h.baseOffset)
			found, err = w.next(&h)
		}
		w.close()
		if err != nil {
			return nil, fmt.Errorf("read leader epochs of %s: %w", l.tp, err)
		}
	}
	return list, nil
}

// create makes the directory and an empty segment at offset 0, durably but for the name of the
// directory itself.
func (l *Log) create(id uuid.UUID, now int64) error {
	if err := l.fsys.MkdirAll(l.dir(), 0o755); err != nil {
		return fmt.Errorf("create %s: %w", l.dir(), err)
	}
	// Nobody knows the directory yet, so that no rename is needed.
	name := filepath.Join(l.dir(), filePartitionMetadata)
	if err := writeFileSynced(l.fsys, name, formatPartitionMetadata(id)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	l.topicID.Store(&id)
	s, err := createSegment(l.fsys, l.dir(), 0, now)
	if err != nil {
		return err
	}
	if l.config.Load().Preallocate {
		if err := s.reserve(l.config.Load().SegmentBytes); err != nil {
			return errors.Join(fmt.Errorf("reserve a segment: %w", err), s.closeFiles())
		}
	}
	l.segments.Store(&[]*segment{s})
	return syncDir(l.fsys, l.dir())
}

func writeFileSynced(fsys vfs.FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, vfs.WriteOnly|vfs.Create|vfs.Truncate, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		if err = f.Sync(); err != nil {
			err = syncFileError(name, err)
		}
	}
	return errors.Join(err, f.Close())
}
