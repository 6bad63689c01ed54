package storage

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// flushWorkers bounds the syncs that run at once. Several partitions' syncs share journal commits
// of the file system; more only make each slower.
const flushWorkers = 8

// Run flushes, deletes, expires and writes checkpoints until ctx ends (nil) or the directory fails
// (ErrDirFailed). Call it once; it returns after its goroutines have.
func (d *Dir) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { d.runFlusher(ctx) })
	wg.Go(func() { d.runHousekeeping(ctx) })
	wg.Go(func() { d.runScrub(ctx) })
	wg.Go(func() { d.journal.runAhead(ctx) })
	select {
	case <-ctx.Done():
	case <-d.failedNow:
	}
	cancel()
	wg.Wait()
	if err := d.failure(); err != nil {
		for _, l := range d.Logs() {
			l.notify() // who waits for a sync shall learn that none comes
		}
		return err
	}
	return nil
}

// requestSync implements logOwner.
func (d *Dir) requestSync(l *Log) {
	d.dirty.Lock()
	d.dirty.logs = append(d.dirty.logs, l)
	d.dirty.Unlock()
	wake(d.flushWake)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// runFlusher is group commit: while one round of syncs runs, appends queue their logs for the next.
// There is no timer, so that a single writer waits for no one.
func (d *Dir) runFlusher(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.flushWake:
		}
		// Who was answered by the last round may have sent more, and who is about to append belongs into
		// this one: both run first.
		runtime.Gosched()
		runtime.Gosched()
		logs := d.takeDirty()
		d.flush(ctx, logs)
		clear(logs)
		d.dirty.Lock()
		d.dirty.spare = logs[:0]
		d.dirty.Unlock()
	}
}

func (d *Dir) takeDirty() []*Log {
	d.dirty.Lock()
	defer d.dirty.Unlock()
	logs := d.dirty.logs
	d.dirty.logs, d.dirty.spare = d.dirty.spare[:0], nil
	return logs
}

func (d *Dir) flush(ctx context.Context, logs []*Log) {
	rest := d.journal.commit(logs)
	if len(rest) == 0 { // as mostly; nothing is allocated then
		return
	}
	inWorkers(rest, func(l *Log) { d.flushLog(ctx, l) })
}

// inWorkers calls fn for each log, for a few at once, and returns when all calls have.
func inWorkers(logs []*Log, fn func(*Log)) {
	if len(logs) == 1 {
		fn(logs[0])
		return
	}
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(logs)); i = next.Add(1) - 1 {
			fn(logs[i])
		}
	}
	var wg sync.WaitGroup
	for range min(len(logs), flushWorkers) {
		wg.Go(work)
	}
	wg.Wait()
}

// flushLog syncs one log. A failure has failed the directory already.
func (d *Dir) flushLog(ctx context.Context, l *Log) {
	l.queued.Store(false) // from here on, an append queues the log again
	if err := l.syncTo(ctx, l.end.Load()); ctx.Err() == nil {
		d.notSynced(l, err)
	}
}

// notSynced tells about a log that was refused its sync.
func (d *Dir) notSynced(l *Log, err error) {
	if err != nil && l.Err() == nil {
		d.logger.Warn("log not synced", "partition", l.tp, "error", err)
	}
}

// runHousekeeping looks for expired segments and producers, writes checkpoints and unlinks files.
func (d *Dir) runHousekeeping(ctx context.Context) {
	retention := time.NewTicker(d.opts.RetentionInterval)
	defer retention.Stop()
	checkpoint := time.NewTicker(d.opts.CheckpointInterval)
	defer checkpoint.Stop()
	starts := time.NewTicker(d.opts.StartOffsetInterval)
	defer starts.Stop()
	marks := time.NewTicker(d.opts.HighWatermarkInterval)
	defer marks.Stop()
	removal := time.NewTimer(0)
	defer removal.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-retention.C:
			d.ApplyRetention()
		case <-checkpoint.C:
			d.checkpointNow(ctx)
		case <-starts.C:
			d.checkpointed(d.saveStartOffsets())
		case <-marks.C:
			d.checkpointed(d.saveHighWatermarks())
		case <-removal.C:
			removal.Reset(d.removeDue())
		case <-d.removalAdded:
			removal.Reset(d.removeDue())
		}
	}
}

// ApplyRetention deletes expired segments and forgets idle producers of all logs now, instead of at
// the next RetentionInterval.
func (d *Dir) ApplyRetention() {
	t := d.opts.Now()
	now, jump := t.UnixMilli(), d.clockJump(t)
	for _, l := range d.Logs() {
		if l.Err() != nil {
			continue
		}
		l.expireProducers(now, jump, d.settings.Load().ProducerIDExpiration.Milliseconds())
		n, err := l.deleteExpired(now)
		if err != nil && !errors.Is(err, ErrClosed) {
			d.logger.Warn("retention failed", "partition", l.tp, "error", err)
		}
		if n > 0 {
			d.logger.Info("expired segments deleted", "partition", l.tp, "segments", n,
				"start", l.StartOffset())
			l.notify() // the last stable offset may have moved with it
		}
	}
}

// clockJump returns by how many ms the wall clock was set ahead, or back, since the last call: by
// so much more, or less, it went on than the monotonic clock.
func (d *Dir) clockJump(now time.Time) int64 {
	d.looked.Lock()
	defer d.looked.Unlock()
	last := d.looked.at
	d.looked.at = now
	return now.UnixMilli() - last.UnixMilli() - now.Sub(last).Milliseconds()
}

// checkpointNow syncs what FlushOS left to the kernel and writes down that it is synced.
func (d *Dir) checkpointNow(ctx context.Context) {
	for _, l := range d.Logs() {
		if l.Err() == nil && l.filed.Load() < l.EndOffset() && ctx.Err() == nil {
			d.notSynced(l, l.fileSync())
		}
	}
	if d.failure() != nil {
		return
	}
	d.checkpointed(errors.Join(d.saveRecoveryPoints(), d.saveCleanedOffsets()))
}

// checkpointed tells about a checkpoint that was not written.
func (d *Dir) checkpointed(err error) {
	if err != nil && d.failure() == nil {
		d.count.CheckpointErrors.Add(1)
		d.logger.Warn("checkpoints not written, the next interval tries again", "error", err)
	}
}

// removeLater implements logOwner.
func (d *Dir) removeLater(path string, delayMS int64) {
	d.mu.Lock()
	// A hundred years are for ever, and fit into a Duration.
	delay := time.Duration(min(delayMS, 100*365*24*3600*1000)) * time.Millisecond
	d.mu.removals = append(d.mu.removals, removal{path, d.opts.Now().Add(delay)})
	d.mu.Unlock()
	wake(d.removalAdded)
}

// removeDue unlinks what is due and returns the time until the next one is.
func (d *Dir) removeDue() time.Duration {
	now := d.opts.Now()
	var due []string
	wait := time.Hour
	d.mu.Lock()
	rest := d.mu.removals[:0]
	for _, r := range d.mu.removals {
		if !now.Before(r.deadline) {
			due = append(due, r.path)
			continue
		}
		rest = append(rest, r)
		wait = min(wait, r.deadline.Sub(now))
	}
	d.mu.removals = rest
	d.mu.Unlock()
	for _, path := range due {
		if err := d.opts.FS.RemoveAll(path); err != nil {
			d.logger.Warn("deleted files not unlinked, the next start tries again", "path", path,
				"error", err)
		}
	}
	return wait
}
