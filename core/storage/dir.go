package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/vfs"
)

// DirOptions configure a data directory. Path is required, the rest has defaults.
type DirOptions struct {
	FS     vfs.FS           // default vfs.OS()
	Path   string           // of the directory; made if missing
	Logger *slog.Logger     // default: discard
	Now    func() time.Time // wall clock; default time.Now
	// ClusterID must be the one in meta.properties. Empty: take that one, or make one up.
	ClusterID string
	NodeID    int32 // must be the one in meta.properties
	// RetentionInterval is the time between two looks for expired segments and producers;
	// log.retention.check.interval.ms, default 5 min.
	RetentionInterval time.Duration
	// CheckpointInterval is the time between two writes of the offset checkpoints;
	// log.flush.offset.checkpoint.interval.ms, default 1 min.
	CheckpointInterval time.Duration
	// StartOffsetInterval and HighWatermarkInterval are the times between two writes of those
	// checkpoints; log.flush.start.offset.checkpoint.interval.ms and
	// replica.high.watermark.checkpoint.interval.ms, default CheckpointInterval.
	StartOffsetInterval, HighWatermarkInterval time.Duration
	// RecoveryThreads is how many logs are opened at once, num.recovery.threads.per.data.dir;
	// default one for each CPU, and at least 2.
	RecoveryThreads int
	// MaxOpenFiles bounds the descriptors for segments' files; beyond it, idle ones are closed and
	// opened again when needed. 0: no limit.
	MaxOpenFiles int
	// Reserve is how many bytes of the disk appends leave free, for whatever else needs them to get
	// out of there, above all the metadata log. 0: none.
	Reserve int64
	// Settings at first, see Dir.Configure.
	Settings DirSettings
}

func (o DirOptions) withDefaults() DirOptions {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = 5 * time.Minute
	}
	if o.CheckpointInterval <= 0 {
		o.CheckpointInterval = time.Minute
	}
	if o.StartOffsetInterval <= 0 {
		o.StartOffsetInterval = o.CheckpointInterval
	}
	if o.HighWatermarkInterval <= 0 {
		o.HighWatermarkInterval = o.CheckpointInterval
	}
	if o.RecoveryThreads <= 0 {
		o.RecoveryThreads = max(2, runtime.GOMAXPROCS(0))
	}
	if o.MaxOpenFiles > 0 {
		o.FS = vfs.NewPool(o.FS, o.MaxOpenFiles)
	}
	return o
}

func (o DirOptions) validate() error {
	if o.Path == "" {
		return errors.New("data directory: no path")
	}
	return nil
}

// DirSettings can change while the directory is open. Zero fields take their defaults.
type DirSettings struct {
	ProducerIDExpiration time.Duration // producer.id.expiration.ms, default 24 h
	// PartitionProducers and Producers bound the producer ids that a partition and all of them
	// remember (millstream.partition.producer.ids.max, millstream.producer.ids.max); 0 does not.
	PartitionProducers, Producers int
	// ScrubBytesPerSecond is how fast sealed segments are read to find damage,
	// millstream.log.scrub.bytes.per.second; 0 is never. ScrubInterval is the time between two
	// readings of one, millstream.log.scrub.interval.ms.
	ScrubBytesPerSecond int64
	ScrubInterval       time.Duration
}

// Configure changes the settings for what comes next.
func (d *Dir) Configure(s DirSettings) {
	if s.ProducerIDExpiration <= 0 {
		s.ProducerIDExpiration = 24 * time.Hour
	}
	d.settings.Store(&s)
}

// Dir is a data directory: many logs, one process. All methods are safe for concurrent use.
type Dir struct {
	opts     DirOptions
	logger   *slog.Logger
	identity metaProperties
	lock     io.Closer
	wasClean bool // the last process closed it in order

	settings atomic.Pointer[DirSettings] // never nil
	count    Counters

	// spare is what may be appended before the disk is asked for its free space again.
	spare atomic.Int64

	failed    atomic.Pointer[error] // why the directory has failed; nil = it has not
	failedNow chan struct{}         // closed when failed is set
	// opened says that all logs are known, so that checkpoints may be written.
	opened atomic.Bool

	mu struct {
		sync.RWMutex
		logs     map[TopicPartition]*Log
		busy     map[TopicPartition]chan struct{} // being created or deleted; see claim
		closed   bool
		removals []removal
	}
	removalAdded chan struct{} // capacity 1: the next deadline may have changed

	looked struct {
		sync.Mutex
		at time.Time // when idle producers were last looked for
	}

	// checkpointToken is held while a checkpoint file is written. It comes after all locks.
	checkpointToken chan struct{}

	// abortsList is the content of the list of aborted transactions, nil if there is none;
	// checkpointToken guards it.
	abortsList []byte

	// staleLines says that the checkpoint files may have lines of deleted logs.
	staleLines atomic.Bool

	dirty struct {
		sync.Mutex
		logs, spare []*Log // logs that asked for a sync; spare is reused
	}
	flushWake chan struct{} // capacity 1
	journal   *groupJournal
}

// removal is a path to unlink.
type removal struct {
	path     string
	deadline time.Time // monotonic
}

// ClusterID returns the cluster that the directory belongs to.
func (d *Dir) ClusterID() string { return d.identity.clusterID }

// DirectoryID returns the random id the directory got when it was made.
func (d *Dir) DirectoryID() uuid.UUID { return d.identity.directoryID }

// WasClean reports whether the directory had been closed in order before this OpenDir.
func (d *Dir) WasClean() bool { return d.wasClean }

// Err returns why the directory has failed for good (ErrDirFailed), or nil.
func (d *Dir) Err() error { return d.failure() }

// Logs returns all logs, in order of their names, offline ones included.
func (d *Dir) Logs() []*Log {
	d.mu.RLock()
	logs := make([]*Log, 0, len(d.mu.logs))
	for _, l := range d.mu.logs {
		logs = append(logs, l)
	}
	d.mu.RUnlock()
	slices.SortFunc(logs, func(a, b *Log) int { return compareTopicPartition(a.tp, b.tp) })
	return logs
}

// Log returns the log of a partition; false if there is none.
func (d *Dir) Log(tp TopicPartition) (*Log, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	l, ok := d.mu.logs[tp]
	return l, ok
}

// failure implements logOwner.
func (d *Dir) failure() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail implements logOwner. The first error wins.
func (d *Dir) fail(cause error) {
	err := fmt.Errorf("%w: %s: %w", ErrDirFailed, d.opts.Path, cause)
	if d.failed.CompareAndSwap(nil, &err) {
		d.logger.Error("data directory failed, no more writes until a restart",
			"dir", d.opts.Path, "error", cause)
		close(d.failedNow)
	}
}

func (d *Dir) nowMS() int64 { return d.opts.Now().UnixMilli() }

// saveRecoveryPoints implements logOwner.
func (d *Dir) saveRecoveryPoints() error {
	var in []*Log
	err := d.saveCheckpoint(fileRecoveryPoints, func(l *Log) (int64, bool) {
		if !l.known.Load() {
			in = append(in, l)
		}
		return l.filed.Load(), true
	})
	for _, l := range in {
		l.known.Store(err == nil)
	}
	return err
}

// saveStartOffsets implements logOwner. Logs that start with their first segment need no line.
func (d *Dir) saveStartOffsets() error {
	return d.saveCheckpoint(fileStartOffsets, func(l *Log) (int64, bool) {
		list, start := *l.segments.Load(), l.StartOffset()
		return start, start > 0 && (len(list) == 0 || start > list[0].base)
	})
}

func (d *Dir) saveHighWatermarks() error {
	return d.saveCheckpoint(fileHighWatermarks, func(l *Log) (int64, bool) {
		return l.HighWatermark(), true
	})
}

// saveCleanedOffsets implements logOwner. Logs that were never compacted have no line.
func (d *Dir) saveCleanedOffsets() error {
	return d.saveCheckpoint(fileCleanedOffsets, func(l *Log) (int64, bool) {
		at := l.CleanedOffset()
		return at, at >= 0
	})
}

// saveCheckpoint writes one offset of each log that has one into a checkpoint file.
func (d *Dir) saveCheckpoint(name string, offset func(*Log) (int64, bool)) error {
	if !d.opened.Load() {
		return nil // OpenDir writes them once it knows all logs
	}
	d.checkpointToken <- struct{}{}
	defer func() { <-d.checkpointToken }()
	if err := d.failure(); err != nil {
		return err
	}
	if name == fileRecoveryPoints { // first: what it leaves out is read again below the points
		if err := d.saveAbortsList(); err != nil {
			return err
		}
	}
	offsets := make(map[TopicPartition]int64)
	d.mu.RLock()
	for tp, l := range d.mu.logs {
		if at, ok := offset(l); ok {
			offsets[tp] = at
		}
	}
	d.mu.RUnlock()
	path := filepath.Join(d.opts.Path, name)
	err := vfs.WriteFileAtomic(d.opts.FS, path, formatOffsetCheckpoint(offsets), 0o644)
	if err != nil {
		return d.diskError(fmt.Errorf("write %s: %w", path, err))
	}
	return nil
}

// diskError sorts what went wrong on the disk as Log.diskError does.
func (d *Dir) diskError(err error) error {
	if isRefused(err) {
		return refused(err)
	}
	d.fail(err)
	return fmt.Errorf("%w: %w", ErrDirFailed, err)
}

// saveCheckpoints writes all checkpoint files.
func (d *Dir) saveCheckpoints() error {
	return errors.Join(d.saveRecoveryPoints(), d.saveStartOffsets(), d.saveHighWatermarks(),
		d.saveCleanedOffsets())
}

// Close syncs and closes all logs, writes the checkpoints and the marker of a clean shutdown, and
// gives the lock back. Run must have returned. It is idempotent.
func (d *Dir) Close() error {
	d.mu.Lock()
	if d.mu.closed {
		d.mu.Unlock()
		return nil
	}
	d.mu.closed = true
	d.mu.Unlock()
	err := d.failure()
	for _, l := range d.Logs() {
		err = errors.Join(err, l.close())
	}
	err = errors.Join(err, d.saveCheckpoints())
	if err == nil {
		err = d.journal.remove() // if the marker is durable and this is not, the start does it
	}
	d.journal.abandon()
	if err == nil {
		err = d.writeCleanMarker()
	}
	return errors.Join(err, d.lock.Close())
}

func (d *Dir) writeCleanMarker() error {
	data, err := cleanShutdown{BrokerEpoch: -1}.format()
	if err != nil {
		return fmt.Errorf("encode the clean shutdown marker: %w", err)
	}
	path := filepath.Join(d.opts.Path, fileCleanShutdown)
	if err := vfs.WriteFileAtomic(d.opts.FS, path, data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// close syncs the log and closes its files. The error says why that is not a clean shutdown.
func (l *Log) close() error {
	if err := l.damaged.Load(); err != nil {
		l.closed.Store(true)
		return *err
	}
	defer l.claimSegments()()
	if err := l.takeToken(context.Background()); err != nil {
		return err
	}
	defer l.giveToken()
	if l.closed.Load() {
		return nil
	}
	_, err := l.syncWithToken()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		err = l.closeCleanLocked()
	}
	l.closed.Store(true)
	l.countProducersLocked()
	for _, s := range *l.segments.Load() {
		s.release()
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", l.tp, err)
	}
	return nil
}

// closeCleanLocked writes what a start without recovery needs: complete indexes and the producers.
func (l *Log) closeCleanLocked() error {
	if l.end.Load() != l.filed.Load() {
		return fmt.Errorf("appended to while closing")
	}
	s := l.active()
	if err := s.flushIndexes(true); err != nil {
		return err
	}
	s.mu.Lock()
	err := s.unreserveLocked()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.syncIndexes(); err != nil {
		return err
	}
	if err := writeSnapshot(l.fsys, l.dir(), l.end.Load(), l.mu.producers); err != nil {
		return err
	}
	return syncDir(l.fsys, l.dir())
}
