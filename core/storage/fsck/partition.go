package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream-io/millstream/core/vfs"
)

// Files of a partition's directory.
const (
	fileEpochs            = "leader-epoch-checkpoint"
	filePartitionMetadata = "partition.metadata"
	suffixLog             = ".log"
	suffixIndex           = ".index"
	suffixTimeIndex       = ".timeindex"
	suffixTxnIndex        = ".txnindex"
	suffixSnapshot        = ".snapshot"
)

// partition is the check of one partition's directory. The log is read once, from front to back;
// everything else is held against it on the way.
type partition struct {
	*checker
	name, dir string

	bases     []int64         // of the segments, ascending
	indexes   map[string]bool // names of the index files that are there
	snapshots []int64         // offsets of snapshots not compared yet, ascending
	epochs    []epochLine     // of leader-epoch-checkpoint
	hasEpochs bool            // the file is there and well formed

	recoveryPoint int64 // -1: unknown
	start         int64 // records before it were deleted, -1: unknown
	cleanedTo     int64 // offset below which compaction has been, -1: nowhere

	next      int64 // offset that the next batch must have, or a later one
	known     bool  // next is known: a batch or a segment's name has been seen
	lost      bool  // batches before it cannot be read
	lastEpoch int32 // of the last batch, -1: none yet
	// wrongEpoch is the epoch of the last batch and, as its start, the one that the checkpoint has
	// in its place; -1 if they agree.
	wrongEpoch epochLine
	producers  producers
}

func (c *checker) partition(name, dir string) error {
	p := &partition{
		checker: c, name: name, dir: dir, indexes: make(map[string]bool), lastEpoch: -1,
		recoveryPoint: c.point(fileRecoveryPoints, name), cleanedTo: c.point(fileCleaned, name),
		start: c.point(fileStartOffsets, name),
	}
	c.summary.Partitions++
	entries, err := c.opts.FS.ReadDir(dir)
	if err != nil {
		c.unreadable(dir, err)
		return nil
	}
	for _, e := range entries {
		p.file(e.Name(), e.IsDir())
	}
	slices.Sort(p.bases)
	slices.Sort(p.snapshots)
	for _, name := range slices.Sorted(maps.Keys(p.indexes)) {
		base, _, _ := segmentFile(name)
		if !slices.Contains(p.bases, base) {
			p.afterCrash(filepath.Join(dir, name), -1, doRemove, "is the index of no segment")
		}
	}
	p.metadata()
	p.readEpochs()
	if len(p.bases) == 0 {
		p.afterCrash(dir, -1, doRestore, "has no segment")
		return nil
	}
	p.producers = producers{complete: p.bases[0] == 0 && p.cleanedTo < 0}
	for i := range p.bases {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		p.segment(i)
	}
	p.finish()
	return nil
}

// segmentFile splits a name such as 00000000000000000042.log.
func segmentFile(name string) (base int64, suffix string, ok bool) {
	if len(name) < 21 || name[20] != '.' {
		return 0, "", false
	}
	base, err := strconv.ParseInt(name[:20], 10, 64)
	return base, name[20:], err == nil && fmt.Sprintf("%020d", base) == name[:20]
}

// file takes note of one file of the directory.
func (p *partition) file(name string, isDir bool) {
	path := filepath.Join(p.dir, name)
	base, suffix, ok := segmentFile(name)
	switch {
	case isDir:
		p.damage(path, -1, doRemove, "is a directory, which does not belong here")
	case ok && suffix == suffixLog:
		p.bases = append(p.bases, base)
	case ok && (suffix == suffixIndex || suffix == suffixTimeIndex || suffix == suffixTxnIndex):
		p.indexes[name] = true
	case ok && suffix == suffixSnapshot:
		p.snapshots = append(p.snapshots, base)
	case name == fileEpochs, name == filePartitionMetadata:
	case strings.HasSuffix(name, ".deleted"):
		p.note(path, -1, doNothing, "is a file to be removed")
	case strings.HasSuffix(name, ".cleaned"), strings.HasSuffix(name, ".swap"):
		p.note(path, -1, doNothing, "is a compaction that a crash has cut short")
	case strings.HasSuffix(name, ".tmp"):
		p.note(path, -1, doNothing, "is a write that a crash has cut short")
	case p.name == "__cluster_metadata-0" &&
		(strings.HasSuffix(name, ".checkpoint") || name == "quorum-state"):
		// Of a Kafka that is a controller too.
	default:
		p.damage(path, -1, doRemove, "is a file that does not belong here")
	}
}

func (p *partition) metadata() {
	path := filepath.Join(p.dir, filePartitionMetadata)
	data, err := vfs.ReadFile(p.opts.FS, path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !p.clean && p.empty():
		p.note(path, -1, doNothing, "is missing: a crash has cut the creation short")
		return
	case errors.Is(err, fs.ErrNotExist):
		p.damage(path, -1, doRestore, "is missing: nobody knows which topic's records these are")
		return
	case err != nil:
		p.unreadable(path, err)
		return
	}
	do := "write it anew with the topic's id, as its other partitions have it"
	if err := checkPartitionMetadata(data); err != nil && !p.clean && p.empty() {
		p.note(path, -1, doNothing, "is of a creation that a crash has cut short: %v", err)
		return
	} else if err != nil {
		p.malformed(path, do, err)
		return
	}
	topic := p.name[:strings.LastIndexByte(p.name, '-')]
	id := strings.TrimSpace(string(data[strings.LastIndexByte(string(data), ' ')+1:]))
	if other, ok := p.topics[topic]; ok && other != id {
		p.damage(path, -1, do, "topic_id is %s, another partition of the topic has %s", id, other)
	}
	p.topics[topic] = id
}

// empty reports whether no segment has a byte: nothing was acknowledged then.
func (p *partition) empty() bool {
	for _, base := range p.bases {
		name := filepath.Join(p.dir, fmt.Sprintf("%020d%s", base, suffixLog))
		if info, err := p.opts.FS.Stat(name); err != nil || info.Size() > 0 {
			return false
		}
	}
	return true
}

func (p *partition) readEpochs() {
	path := filepath.Join(p.dir, fileEpochs)
	data, err := vfs.ReadFile(p.opts.FS, path)
	if err == nil {
		p.epochs, err = parseEpochs(data)
		if err == nil {
			p.hasEpochs = true
			return
		}
		p.malformed(path, doRebuild, err)
		return
	}
	if !errors.Is(err, fs.ErrNotExist) {
		p.unreadable(path, err)
	}
}

// epochAt is the leader epoch that the checkpoint has for an offset, -1 if none.
func (p *partition) epochAt(offset int64) int32 {
	epoch := int32(-1)
	for _, e := range p.epochs {
		if e.start > offset {
			break
		}
		epoch = e.epoch
	}
	return epoch
}

// finish looks at what must fit the end of the log.
func (p *partition) finish() {
	for len(p.snapshots) > 0 {
		at := p.snapshots[0]
		p.snapshots = p.snapshots[1:]
		if at > p.next {
			p.afterCrash(filepath.Join(p.dir, fmt.Sprintf("%020d%s", at, suffixSnapshot)), -1,
				doRebuild, "is of offset %d, the log ends at %d", at, p.next)
			continue
		}
		p.snapshot(at)
	}
	end := p.next
	path := filepath.Join(p.dir, fileEpochs)
	for i, e := range p.epochs {
		if e.start > end {
			p.afterCrash(path, int64(i+3), doRebuild,
				"epoch %d begins at offset %d, the log ends at %d", e.epoch, e.start, end)
		}
	}
	if !p.hasEpochs && p.lastEpoch >= 0 && p.reports[path] == 0 {
		p.afterCrash(path, -1, doNothing, "is missing: the next start reads all epochs from the log")
	}
	first := p.bases[0]
	for _, file := range checkpointFiles {
		at := p.point(file, p.name)
		path := filepath.Join(p.opts.Path, file)
		switch {
		case at < 0 && p.clean && p.points[file] != nil && file == fileRecoveryPoints &&
			p.name != "__cluster_metadata-0": // Kafka keeps that one's elsewhere
			p.damage(path, -1, doStart, "has no line for %s", p.name)
		case at > end && file == fileStartOffsets:
			p.damage(path, -1, doRestore, "the log of %s begins at %d, but its segments end at %d",
				p.name, at, end)
		case at > end:
			p.damage(path, -1, doRestore, "has offset %d for %s, whose log ends at %d: records are "+
				"missing", at, p.name, end)
		case at >= 0 && at < first && file == fileRecoveryPoints && p.clean:
			p.damage(path, -1, doStart, "has offset %d for %s, whose log begins at %d", at, p.name,
				first)
		case at >= 0 && at < end && file == fileRecoveryPoints && p.clean:
			p.damage(path, -1, doStart, "has offset %d for %s, which was closed in order at %d", at,
				p.name, end)
		}
	}
	start, highWatermark := p.point(fileStartOffsets, p.name), p.point(fileHighWatermarks, p.name)
	if start >= 0 && highWatermark >= 0 && start > highWatermark && p.clean {
		p.damage(filepath.Join(p.opts.Path, fileHighWatermarks), -1, doStart,
			"has offset %d for %s, whose log begins at %d", highWatermark, p.name, start)
	}
}

// afterCrash reports what a crash may leave behind: damage in a directory that was closed in order.
func (p *partition) afterCrash(file string, position int64, do, format string, args ...any) {
	if p.clean {
		p.damage(file, position, do, format, args...)
		return
	}
	p.note(file, position, doNothing, format, args...)
}
