package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/core/vfs"
)

// How a compacted segment N replaces O1, O2, ..., of which O1 has N's base offset. The steps and
// names are Kafka's, and its loader can take over after a kill at any of them:
//
//	1  N.*.cleaned written and synced, names synced     after a crash: thrown away
//	2  N.log.cleaned becomes N.log.swap, names synced   from here on: N is the log
//	3  N's indexes become .swap, O1.* and O2.* .deleted
//	4  N's indexes lose .swap, names synced
//	5  N.log loses .swap, names synced
//
// All files of N are made, even if they stay empty: so an index of the old segment never survives
// beside N.
//
// N ends where the last of O ended (its last batch stays, if need be without records), so that the
// files that N.log.swap replaces are those with a base offset in [N's base, N's end).

// cleanSuffixes are the files of a compacted segment, the one that decides first.
var cleanSuffixes = []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex}

// renameIfExists renames a file that need not be there.
func renameIfExists(fsys vfs.FS, from, to string) error {
	err := renamePatiently(fsys, from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// renamePatiently renames where there is no way back, in the middle of an exchange: it waits a
// while for space, as syncDir does for a descriptor.
func renamePatiently(fsys vfs.FS, from, to string) error {
	for tries := 1; ; tries++ {
		err := fsys.Rename(from, to)
		if err == nil || tries == syncDirTries || !isRefused(err) {
			return err
		}
		<-time.After(syncDirWait)
	}
}

// removeNamed closes and unlinks the files of a segment that is in no list.
func (s *segment) removeNamed(end string) error {
	err := s.closeFiles()
	for _, suffix := range cleanSuffixes {
		err = errors.Join(err, removeIfExists(s.fsys, segmentFile(s.dir, s.base, suffix+end)))
	}
	return err
}

// swapIn puts s, whose files end in .cleaned and are synced, in the place of old.
func (c *Cleaning) swapIn(old []*segment, s *segment) error {
	l := c.log
	defer l.claimSegments()()
	if err := c.check(); err != nil {
		return err
	}
	if i := slices.Index(*l.segments.Load(), old[0]); i < 0 {
		return c.void() // retention took it
	}
	if err := l.syncNamesLocked(); err != nil {
		return err
	}
	name := segmentFile(l.dir(), s.base, suffixLog)
	if err := l.fsys.Rename(name+suffixCleaned, name+suffixSwap); err != nil {
		return err
	}
	// The disk has decided. What fails now is finished by the next start.
	err := l.syncNamesLocked()
	if err == nil {
		l.publishCleaned(old, s)
		err = l.finishSwap(old, s)
	}
	if err != nil && l.owner.failure() == nil {
		l.owner.fail(fmt.Errorf("swap in the compacted segment %s: %w", name, err))
	}
	if err != nil {
		return l.owner.failure()
	}
	return nil
}

// publishCleaned lets readers find s instead of old. Those that hold one of old keep it.
func (l *Log) publishCleaned(old []*segment, s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Clone(*l.segments.Load())
	i := slices.Index(list, old[0])
	list = slices.Replace(list, i, i+len(old), s)
	l.segments.Store(&list)
}

// finishSwap gives the files of both sides their final names.
func (l *Log) finishSwap(old []*segment, s *segment) error {
	rename := func(suffix, from, to string) error {
		name := segmentFile(l.dir(), s.base, suffix)
		return renameIfExists(l.fsys, name+from, name+to)
	}
	for _, suffix := range cleanSuffixes[1:] {
		if err := rename(suffix, suffixCleaned, suffixSwap); err != nil {
			return err
		}
	}
	for i, o := range old {
		suffixes := segmentSuffixes
		if i == 0 {
			suffixes = cleanSuffixes // the producers' state at N's base stays true
		}
		if _, err := l.retireFiles(o, suffixes); err != nil {
			return err
		}
	}
	for _, suffix := range cleanSuffixes[1:] {
		if err := rename(suffix, suffixSwap, ""); err != nil {
			return err
		}
	}
	if err := l.syncNamesLocked(); err != nil {
		return err
	}
	if err := rename(suffixLog, suffixSwap, ""); err != nil {
		return err
	}
	if err := l.syncNamesLocked(); err != nil {
		return err
	}
	s.settleAborts(l.fsys, segmentFile(l.dir(), s.base, suffixTxnIndex))
	return nil
}

// settleAborts tells the index of aborted transactions its final name, and unlinks its file if it
// is empty: Kafka has no such file then. If that fails, it does no harm.
func (s *segment) settleAborts(fsys vfs.FS, name string) {
	s.mu.Lock()
	x := &s.mu.aborts
	x.name = name
	file := x.file
	if x.count.Load() > 0 {
		file = nil
	} else {
		x.file = nil
	}
	s.mu.Unlock()
	if file != nil {
		_ = file.Close()
		_ = removeIfExists(fsys, name)
	}
}

// finishSwaps brings swaps that a crash interrupted to their end, or takes back those that had not
// been decided. Their files are removed with the other left-overs.
func (l *Log) finishSwaps() error {
	entries, err := l.fsys.ReadDir(l.dir())
	if err != nil {
		return fmt.Errorf("list %s: %w", l.dir(), err)
	}
	var swaps []int64
	cleaned := int64(-1) // smallest base of a .log.cleaned
	for _, e := range entries {
		base, suffix, ok := parseSegmentFile(e.Name())
		switch {
		case ok && suffix == suffixLog+suffixSwap:
			swaps = append(swaps, base)
		case ok && suffix == suffixLog+suffixCleaned && (cleaned < 0 || base < cleaned):
			cleaned = base
		}
	}
	slices.SortFunc(swaps, cmp.Compare[int64])
	for _, base := range swaps {
		if cleaned >= 0 && base > cleaned {
			continue // half of a segment that Kafka was splitting: all or nothing (KAFKA-6264)
		}
		if err := l.resumeSwap(base, entries); err != nil {
			return fmt.Errorf("finish the compaction of segment %d in %s: %w", base, l.dir(), err)
		}
	}
	return nil
}

// resumeSwap finishes the swap of the segment at base, whose .log.swap is there. Running it again
// does no harm.
func (l *Log) resumeSwap(base int64, entries []fs.DirEntry) error {
	name := segmentFile(l.dir(), base, suffixLog)
	end, err := l.swapEnd(name+suffixSwap, base)
	if errors.Is(err, errTorn) {
		if _, statErr := l.fsys.Stat(name); statErr == nil {
			l.logger.Warn("torn compacted segment is thrown away, the old one is there",
				"partition", l.tp, "base", base, "error", err)
			return l.fsys.Remove(name + suffixSwap)
		}
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return err
	}
	l.logger.Info("interrupted compaction is finished", "partition", l.tp, "base", base, "end", end)
	for _, suffix := range cleanSuffixes[1:] {
		file := segmentFile(l.dir(), base, suffix)
		if err := renameIfExists(l.fsys, file+suffixCleaned, file+suffixSwap); err != nil {
			return err
		}
	}
	for _, e := range entries {
		b, suffix, ok := parseSegmentFile(e.Name())
		if !ok || b <= base || b >= end || !slices.Contains(segmentSuffixes, suffix) {
			continue
		}
		if err := removeIfExists(l.fsys, filepath.Join(l.dir(), e.Name())); err != nil {
			return err
		}
	}
	if err := l.fsys.SyncDir(l.dir()); err != nil {
		return err
	}
	for _, suffix := range append(slices.Clone(cleanSuffixes[1:]), suffixLog) {
		file := segmentFile(l.dir(), base, suffix)
		if suffix == suffixLog {
			if err := l.fsys.SyncDir(l.dir()); err != nil {
				return err
			}
		}
		if err := renameIfExists(l.fsys, file+suffixSwap, file); err != nil {
			return err
		}
	}
	return l.fsys.SyncDir(l.dir())
}

// swapEnd returns the offset after the last batch of a .log.swap; errTorn if it is not intact.
func (l *Log) swapEnd(name string, base int64) (end int64, err error) {
	f, err := l.fsys.OpenFile(name, vfs.ReadOnly, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	scan := batchScan{file: f, size: size, buf: make([]byte, recoveryBuffer)}
	end = base
	for {
		var h batchHeader
		more, err := scan.next(&h, end)
		if err != nil || !more {
			return end, err
		}
		end = h.nextOffset()
	}
}

// transient reports whether a file is of work that did not finish.
func transient(name string) bool {
	for _, end := range []string{suffixDeleted, suffixCleaned, suffixSwap, suffixTemp} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
