package storage

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Sync makes everything appended so far durable. Callers that come together share one sync. A
// failed sync fails the directory for good (ErrDirFailed): the kernel may have dropped the bytes
// and a second try would succeed without them.
func (l *Log) Sync(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	return l.syncTo(ctx, l.end.Load())
}

// RequestSync asks the Dir's flusher for a sync and does not wait. It is cheap if one is asked for
// already.
func (l *Log) RequestSync() {
	if l.queued.CompareAndSwap(false, true) {
		l.owner.requestSync(l)
	}
}

// syncWithin asks for a sync after so many milliseconds, unless one is asked for already.
func (l *Log) syncWithin(ms int64) {
	const never = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case ms == 0:
		l.RequestSync()
	case ms > 0 && ms < never && l.timed.CompareAndSwap(false, true):
		time.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
			l.timed.Store(false)
			l.RequestSync()
		})
	}
}

// syncTo returns once the synced offset is at least offset, or a sync failed.
func (l *Log) syncTo(ctx context.Context, offset int64) error {
	if l.synced.Load() >= offset && !l.dirDirty.Load() {
		return nil
	}
	if err := l.takeToken(ctx); err != nil {
		return err
	}
	moved, err := false, error(nil)
	if l.synced.Load() < offset || l.dirDirty.Load() {
		moved, err = l.syncWithToken()
	}
	l.giveToken()
	if moved {
		l.notify()
	}
	return err
}

// syncWithToken syncs what is not durable yet and publishes the synced offset. It reports whether
// that moved.
func (l *Log) syncWithToken() (moved bool, err error) {
	began := time.Now()
	defer func() { l.owner.counters().Syncs.Observe(time.Since(began)) }()
	if err := l.owner.failure(); err != nil {
		return false, err
	}
	if l.closed.Load() {
		return false, fmt.Errorf("sync %s: %w", l.tp, ErrClosed)
	}
	l.mu.Lock()
	end := l.end.Load()
	list := *l.segments.Load()
	active := list[len(list)-1]
	size := active.state().size
	namesChanged := l.dirDirty.Swap(false)
	l.mu.Unlock()
	l.unsynced.Store(0)
	first := len(list) - 1
	for first > 0 && !list[first-1].durable {
		first--
	}
	if s := list[len(list)-1]; s.indexBacklog() >= indexFlushBytes {
		if err := s.flushIndexes(false); err != nil {
			// They are in memory still, and rebuilt from the log after a crash.
			l.logger.Debug("index entries stay in memory", "partition", l.tp, "error", err)
		}
	}
	for i, s := range list[first:] {
		if !s.acquire() {
			continue // deleted meanwhile
		}
		var err error
		if first+i < len(list)-1 {
			if err = s.flushSealedAborts(); err == nil {
				err = s.sealLate()
			}
		}
		if err == nil {
			err = s.sync()
		}
		s.release()
		if err != nil {
			return false, l.notSynced(namesChanged, err)
		}
	}
	if namesChanged {
		if err := syncDir(l.fsys, l.dir()); err != nil {
			return false, l.notSynced(true, err)
		}
	}
	l.covered.segment, l.covered.pos = active, size
	l.filed.Store(end)
	if end <= l.synced.Load() {
		return false, nil
	}
	l.synced.Store(end)
	return true, nil
}

// setSynced says that all below offset is durable in the log's files.
func (l *Log) setSynced(offset int64) {
	l.synced.Store(offset)
	l.filed.Store(offset)
}

// lowerSynced says that nothing from offset on is. The caller holds the sync token.
func (l *Log) lowerSynced(offset int64) {
	l.filed.Store(min(l.filed.Load(), offset))
	l.synced.Store(min(l.synced.Load(), offset))
	l.covered.segment = nil
}

// syncRetry is when a sync is asked for again that found no room for what it needs.
const syncRetry = time.Second

// notSynced sorts why a sync did not come about. What was only refused is asked for again: without
// all of it no offset may count as synced, since recovery would not look there again.
func (l *Log) notSynced(names bool, err error) error {
	if isRefused(err) {
		if names {
			l.dirDirty.Store(true)
		}
		if l.retrying.CompareAndSwap(false, true) {
			time.AfterFunc(syncRetry, func() {
				l.retrying.Store(false)
				l.RequestSync()
			})
		}
		return fmt.Errorf("sync %s: %w", l.tp, refused(err))
	}
	l.owner.fail(err)
	return l.owner.failure()
}
