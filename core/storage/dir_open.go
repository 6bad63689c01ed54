package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/millstream-io/millstream/core/vfs"
)

// OpenDir takes the directory's lock (ErrLocked names the owner), checks whose it is (ErrWrongDir)
// and opens all logs, after an unclean end with recovery. A log that cannot be opened is offline
// (Log.Err) and does not keep the others from starting.
func OpenDir(ctx context.Context, opts DirOptions) (*Dir, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	d := newDir(opts.withDefaults())
	began := time.Now()
	defer func() { d.count.openNanos.Store(int64(time.Since(began))) }()
	if err := d.open(ctx); err != nil {
		if d.lock != nil {
			err = errors.Join(err, d.lock.Close())
		}
		if isRefused(err) {
			err = refused(err)
		}
		return nil, fmt.Errorf("open data directory %s: %w", opts.Path, err)
	}
	return d, nil
}

func newDir(opts DirOptions) *Dir {
	d := &Dir{
		opts:            opts,
		logger:          opts.Logger,
		failedNow:       make(chan struct{}),
		removalAdded:    make(chan struct{}, 1),
		checkpointToken: make(chan struct{}, 1),
		flushWake:       make(chan struct{}, 1),
	}
	d.journal = &groupJournal{dir: d, size: journalBytes, token: make(chan struct{}, 1),
		logs: map[*Log]struct{}{}, ahead: make(chan struct{}, 1)}
	d.looked.at = opts.Now()
	d.Configure(opts.Settings)
	d.mu.logs = make(map[TopicPartition]*Log)
	d.mu.busy = make(map[TopicPartition]chan struct{})
	return d
}

func (d *Dir) open(ctx context.Context) error {
	fsys, path := d.opts.FS, d.opts.Path
	if err := fsys.MkdirAll(path, 0o755); err != nil {
		return err
	}
	lock, err := fsys.Lock(filepath.Join(path, fileLock))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%w: %w", ErrLocked, err)
	}
	if err != nil {
		return err
	}
	d.lock = lock
	if err := d.readIdentity(); err != nil {
		return err
	}
	if err := d.takeCleanMarker(); err != nil {
		return err
	}
	if err := d.replayJournal(false); err != nil {
		return err
	}
	if !d.wasClean { // who made the directory may have ended before its name was durable
		if err := syncDir(fsys, filepath.Dir(filepath.Clean(path))); err != nil {
			return err
		}
	}
	if err := d.openLogs(ctx); err != nil {
		d.closeAll()
		return err
	}
	d.opened.Store(true)
	if err := d.saveCheckpoints(); err != nil && d.failure() != nil {
		d.closeAll()
		return err
	} else if err != nil {
		d.staleLines.Store(true)
		d.logger.Warn("checkpoints not written, a crash will make the next start slower",
			"dir", path, "error", err)
	}
	return nil
}

// closeAll closes the files of the logs, without a word on the disk.
func (d *Dir) closeAll() {
	for _, l := range d.Logs() {
		l.closed.Store(true)
		l.releaseSegments()
	}
}

// readIdentity reads or makes meta.properties.
func (d *Dir) readIdentity() error {
	name := filepath.Join(d.opts.Path, fileMetaProperties)
	data, err := vfs.ReadFile(d.opts.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		d.identity = metaProperties{d.opts.ClusterID, d.opts.NodeID, newID()}
		if d.identity.clusterID == "" {
			d.identity.clusterID = encodeID(newID())
		}
		return d.writeIdentity(name)
	}
	if err != nil {
		return err
	}
	if d.identity, err = parseMetaProperties(data); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if want := d.opts.ClusterID; want != "" && want != d.identity.clusterID {
		return fmt.Errorf("%w: %s has cluster.id=%s, this is cluster %s", ErrWrongDir, name,
			d.identity.clusterID, want)
	}
	if d.opts.NodeID != d.identity.nodeID {
		return fmt.Errorf("%w: %s has node.id=%d, this is node %d", ErrWrongDir, name,
			d.identity.nodeID, d.opts.NodeID)
	}
	if d.identity.directoryID == uuid.Nil {
		d.identity.directoryID = newID()
		return d.writeIdentity(name)
	}
	return nil
}

func (d *Dir) writeIdentity(name string) error {
	if err := vfs.WriteFileAtomic(d.opts.FS, name, d.identity.format(), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	// The directory itself may be new.
	return d.opts.FS.SyncDir(filepath.Dir(filepath.Clean(d.opts.Path)))
}

// takeCleanMarker reads and removes the marker of a clean shutdown. The removal must be durable
// before anything is written, or a crash would bring the marker back beside torn files.
func (d *Dir) takeCleanMarker() error {
	name := filepath.Join(d.opts.Path, fileCleanShutdown)
	data, err := vfs.ReadFile(d.opts.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = parseCleanShutdown(data)
	d.wasClean = err == nil
	if d.wasClean {
		if err := d.replayJournal(true); err != nil {
			return err
		}
	}
	if err := d.opts.FS.Remove(name); err != nil {
		return err
	}
	return d.opts.FS.SyncDir(d.opts.Path)
}

// checkpoint reads a checkpoint file. A broken one counts as empty, which costs a longer recovery
// but no data.
func (d *Dir) checkpoint(file string) (map[TopicPartition]int64, error) {
	offsets, err := readOffsetCheckpoint(d.opts.FS, filepath.Join(d.opts.Path, file))
	if errors.Is(err, ErrBadFile) {
		d.logger.Warn("broken checkpoint ignored", "error", err)
		return map[TopicPartition]int64{}, nil
	}
	return offsets, err
}

// openLogs opens the partitions' directories, several at once.
func (d *Dir) openLogs(ctx context.Context) error {
	points, err1 := d.checkpoint(fileRecoveryPoints)
	starts, err2 := d.checkpoint(fileStartOffsets)
	marks, err3 := d.checkpoint(fileHighWatermarks)
	cleaned, err4 := d.checkpoint(fileCleanedOffsets)
	aborts, err5 := d.readAbortsList()
	entries, err6 := d.opts.FS.ReadDir(d.opts.Path)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return err
	}
	var found []opening
	for _, e := range entries {
		path := filepath.Join(d.opts.Path, e.Name())
		tp, ok := parseTopicPartition(e.Name())
		switch {
		case !e.IsDir():
			continue
		case strings.HasSuffix(e.Name(), suffixDirDelete):
			d.removeLater(path, 0)
			continue
		case strings.HasSuffix(e.Name(), suffixDirStray):
			d.logger.Warn("partition directory set aside earlier, remove it when it is not needed",
				"path", path)
			continue
		case !ok:
			continue
		}
		l := d.newLog(tp, path, DefaultConfig())
		d.mu.logs[tp] = l
		_, known := points[tp]
		p := openParams{clean: d.wasClean, recoveryPoint: points[tp], known: known,
			startOffset:   starts[tp],
			highWatermark: marks[tp], cleanedOffset: -1, aborts: aborts[tp]}
		if at, ok := cleaned[tp]; ok {
			p.cleanedOffset = at
		}
		found = append(found, opening{l, p})
	}
	return d.openAll(ctx, found)
}

// opening is a log that is to be opened, and what is known of it.
type opening struct {
	log    *Log
	params openParams
}

// syncTreeLogs is from how many recovered logs on one sync of everything is cheaper than one for
// each file and directory.
const syncTreeLogs = 32

// openAll opens logs, several at once, and makes durable what their recovery found.
func (d *Dir) openAll(ctx context.Context, found []opening) error {
	began := d.opts.Now()
	p := &progress{total: int64(len(found))}
	defer p.tell(d.logger, d.opts.Path, d.wasClean)()
	later := !d.wasClean && len(found) >= syncTreeLogs
	err := d.inParallel(ctx, found, func(o opening) error {
		defer p.done.Add(1)
		o.params.progress, o.params.syncLater = p, later
		return d.openLog(o.log, o.params)
	})
	if err == nil && later {
		err = d.syncRecovered(ctx, found)
	}
	if err == nil && len(found) > 0 {
		d.logger.Info("logs opened", "dir", d.opts.Path, "partitions", len(found),
			"clean", d.wasClean, "mib_read", p.bytes.Load()>>20, "took", d.opts.Now().Sub(began))
	}
	return err
}

// inParallel calls fn for each log in RecoveryThreads goroutines, until ctx ends.
func (d *Dir) inParallel(ctx context.Context, found []opening, fn func(opening) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(d.opts.RecoveryThreads)
	for _, o := range found {
		group.Go(func() error {
			if ctx.Err() == nil {
				return fn(o)
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// syncRecovered makes all logs durable after their recovery, if it can with one sync.
func (d *Dir) syncRecovered(ctx context.Context, found []opening) error {
	err := vfs.SyncTree(d.opts.FS, d.opts.Path)
	whole := err == nil
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !vfs.FileLimit(err) {
		return syncFileError(d.opts.Path, err)
	}
	return d.inParallel(ctx, found, func(o opening) error {
		if o.log.readable() != nil {
			return nil
		}
		if err := o.log.syncedAfterOpen(whole); err != nil {
			return d.notOpened(o.log, err)
		}
		return nil
	})
}

// notOpened takes a log offline. For want of descriptors nothing could be opened: rather no start
// than one that looks as if partitions were broken.
func (d *Dir) notOpened(l *Log, err error) error {
	if isRefused(err) {
		err = refused(err)
	}
	err = fmt.Errorf("open log %s: %w", l.tp, err)
	l.damaged.Store(&err)
	l.releaseSegments()
	if vfs.FileLimit(err) {
		return err
	}
	d.logger.Error("partition is offline", "partition", l.tp, "error", err)
	return nil
}

func (d *Dir) newLog(tp TopicPartition, path string, c Config) *Log {
	l := newLog(d, d.opts.FS, path, tp, c)
	l.logger, l.clock = d.logger, d.nowMS
	return l
}

// openLog opens one log; what goes wrong takes only that log offline, see notOpened.
func (d *Dir) openLog(l *Log, p openParams) error {
	began := d.opts.Now()
	if err := l.open(p); err != nil {
		return d.notOpened(l, err)
	}
	if !p.clean {
		d.count.Recovered.Add(1)
		d.logger.Debug("log recovered", "partition", l.tp, "from", p.recoveryPoint,
			"end", l.EndOffset(), "took", d.opts.Now().Sub(began))
	}
	return nil
}

// releaseSegments empties the list of a log that is not to be used any more.
func (l *Log) releaseSegments() {
	list := *l.segments.Swap(&[]*segment{})
	for _, s := range list {
		s.release()
	}
}
