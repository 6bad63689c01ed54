package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// maxFileName is the longest name file systems take, in bytes.
const maxFileName = 255

// Create returns the log of a partition, made if missing. A log of that name with another topic id
// is of an earlier topic: its directory is set aside with suffix -stray, not deleted. A log without
// an id, as old Kafka versions made them, is adopted. The zero Config is DefaultConfig.
func (d *Dir) Create(tp TopicPartition, topicID uuid.UUID, c Config) (*Log, error) {
	l, err := d.create(tp, topicID, c.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("create log %s: %w", tp, err)
	}
	return l, nil
}

func (d *Dir) create(tp TopicPartition, topicID uuid.UUID, c Config) (*Log, error) {
	if err := errors.Join(tp.validate(), c.validate()); err != nil {
		return nil, err
	}
	if err := d.usable(); err != nil {
		return nil, err
	}
	defer d.claim(tp)()
	if l, ok := d.Log(tp); ok {
		if err := l.readable(); err != nil {
			return nil, err
		}
		if l.TopicID() == uuid.Nil {
			if err := l.writeTopicID(topicID); err != nil {
				return nil, err
			}
		}
		if l.TopicID() == topicID {
			return l, l.SetConfig(c)
		}
		d.logger.Warn("log of an earlier topic of that name is set aside", "partition", tp,
			"id", l.TopicID(), "wanted", topicID)
		if _, err := d.setAside(suffixDirStray, l); err != nil {
			return nil, err
		}
	}
	return d.createNew(tp, topicID, c)
}

// claim waits until nobody else creates or deletes the partition and keeps others from it until the
// returned function is called. It comes before all locks. Different partitions go side by side,
// since most of the time is spent in syncs that the file system can merge.
func (d *Dir) claim(tp TopicPartition) (release func()) {
	mine := make(chan struct{})
	for {
		d.mu.Lock()
		other := d.mu.busy[tp]
		if other == nil {
			d.mu.busy[tp] = mine
			d.mu.Unlock()
			return func() {
				d.mu.Lock()
				delete(d.mu.busy, tp)
				d.mu.Unlock()
				close(mine)
			}
		}
		d.mu.Unlock()
		<-other
	}
}

// usable returns why nothing can be created.
func (d *Dir) usable() error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.mu.closed {
		return ErrClosed
	}
	return d.failure()
}

func (d *Dir) createNew(tp TopicPartition, topicID uuid.UUID, c Config) (*Log, error) {
	if d.staleLines.Swap(false) {
		// Checkpoint lines of a deleted log must not be taken for the new one's.
		if err := d.saveCheckpoints(); err != nil {
			d.staleLines.Store(true)
			return nil, err
		}
	}
	path := filepath.Join(d.opts.Path, tp.String())
	if _, err := d.opts.FS.Stat(path); err == nil {
		// Left by a creation that failed half-way.
		if err := d.opts.FS.Rename(path, d.asideName(tp, suffixDirStray)); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l := d.newLog(tp, path, c)
	err := l.create(topicID, d.nowMS())
	if err == nil {
		err = syncDir(d.opts.FS, d.opts.Path)
	}
	if err != nil {
		l.releaseSegments()
		err = d.diskError(err)
		return nil, errors.Join(err, d.opts.FS.RemoveAll(path))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.logs[tp] = l
	return l, nil
}

// Delete takes partitions out of service at once: their directories are renamed to
// <topic>-<partition>.<uuid>-delete and unlinked after file.delete.delay.ms. Chunks handed out stay
// readable. What fails for one does not keep the others; ErrUnknownPartition is in the error if
// there is no such log.
func (d *Dir) Delete(tps ...TopicPartition) error {
	return d.retire(suffixDirDelete, tps)
}

// Quarantine takes a partition out of service like Delete, but keeps its files, in a directory with
// suffix -stray, for an operator to look at. It is for logs that the cluster does not know of.
func (d *Dir) Quarantine(tp TopicPartition) error {
	return d.retire(suffixDirStray, []TopicPartition{tp})
}

func (d *Dir) retire(suffix string, tps []TopicPartition) error {
	if err := d.usable(); err != nil {
		return fmt.Errorf("delete logs: %w", err)
	}
	// In order, so that two who want the same ones do not wait for each other.
	tps = slices.SortedFunc(slices.Values(tps), compareTopicPartition)
	var logs []*Log
	var errs []error
	for _, tp := range slices.Compact(tps) {
		defer d.claim(tp)()
		if l, ok := d.Log(tp); ok {
			logs = append(logs, l)
		} else {
			errs = append(errs, fmt.Errorf("delete log %s: %w", tp, ErrUnknownPartition))
		}
	}
	moved, err := d.setAside(suffix, logs...)
	for _, l := range moved {
		if suffix == suffixDirDelete {
			d.removeLater(l.dir(), l.config.Load().FileDeleteDelayMS)
		}
	}
	return errors.Join(append(errs, err)...)
}

// asideName makes the name of a directory that is no partition any more.
func (d *Dir) asideName(tp TopicPartition, suffix string) string {
	unique := strings.ReplaceAll(uuid.NewString(), "-", "")
	tail := fmt.Sprintf("-%d.%s%s", tp.Partition, unique, suffix)
	topic := tp.Topic[:min(len(tp.Topic), maxFileName-len(tail))]
	return filepath.Join(d.opts.Path, topic+tail)
}

// setAside closes logs, renames their directories and forgets them; moved are those for which that
// worked. One sync and one checkpoint do for all.
func (d *Dir) setAside(suffix string, logs ...*Log) (moved []*Log, err error) {
	for _, l := range logs {
		l.unjournaled.Add(1)
		defer l.unjournaled.Add(-1)
	}
	// The partition may come back, and must not get these records then.
	if err := d.voidJournal(); err != nil {
		return nil, err
	}
	var errs []error
	for _, l := range logs {
		if err := l.moveAway(d.asideName(l.tp, suffix)); err != nil {
			errs = append(errs, fmt.Errorf("set log %s aside: %w", l.tp, err))
			continue
		}
		d.mu.Lock()
		delete(d.mu.logs, l.tp)
		d.mu.Unlock()
		moved = append(moved, l)
	}
	if len(moved) == 0 {
		return nil, errors.Join(errs...)
	}
	if err := syncDir(d.opts.FS, d.opts.Path); err != nil {
		d.fail(err)
		return nil, d.failure()
	}
	if err := d.saveCheckpoints(); err != nil {
		d.staleLines.Store(true)
		d.logger.Warn("checkpoints keep lines of deleted logs", "logs", len(moved), "error", err)
	}
	for _, l := range moved {
		l.notify()
	}
	return moved, errors.Join(errs...)
}

// moveAway closes the log and renames its directory.
func (l *Log) moveAway(path string) error {
	defer l.claimSegments()()
	if err := l.takeToken(context.Background()); err != nil {
		return err
	}
	defer l.giveToken()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return ErrClosed
	}
	if err := l.fsys.Rename(l.dir(), path); err != nil {
		return l.diskError(err)
	}
	l.closed.Store(true)
	l.countProducersLocked()
	l.path.Store(&path)
	l.releaseSegments()
	return nil
}
