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
	if err := l.owner.failure(); err != nil {
		return false, err
	}
	if l.closed.Load() {
		return false, fmt.Errorf("sync %s: %w", l.tp, ErrClosed)
	}
	l.mu.Lock()
	end := l.end.Load()
	list := *l.segments.Load()
	namesChanged := l.dirDirty.Swap(false)
	l.mu.Unlock()
	l.unsynced.Store(0)
	first := len(list) - 1
	for first > 0 && !list[first-1].durable {
		first--
	}
	if err := list[len(list)-1].flushIndexes(false); err != nil {
		// They are in memory still, and rebuilt from the log after a crash.
		l.logger.Debug("index entries stay in memory", "partition", l.tp, "error", err)
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
		if isNoSpace(err) {
			// Recovery would not look there again: without these no offset may count as synced.
			s.release()
			l.dirDirty.Store(true)
			return false, fmt.Errorf("sync %s: %w: %w", l.tp, ErrNoSpace, err)
		}
		if err == nil {
			err = s.sync()
		}
		s.release()
		if err != nil {
			l.owner.fail(err)
			return false, l.owner.failure()
		}
	}
	if namesChanged {
		if err := l.fsys.SyncDir(l.dir()); err != nil {
			l.owner.fail(fmt.Errorf("sync directory %s: %w", l.dir(), err))
			return false, l.owner.failure()
		}
	}
	if end <= l.synced.Load() {
		return false, nil
	}
	l.synced.Store(end)
	return true, nil
}
