package compact

import (
	"context"
	"sync"
	"time"
)

// throttle spreads the bytes of all threads evenly over time.
type throttle struct {
	mu struct {
		sync.Mutex
		free time.Time // when what was allowed so far has had its time
	}
}

// wait counts n bytes at rate bytes a second and waits until they may be moved.
func (t *throttle) wait(ctx context.Context, n int, rate float64) error {
	if rate <= 0 || rate > 1e15 || n == 0 {
		return ctx.Err()
	}
	now := time.Now()
	t.mu.Lock()
	at := t.mu.free
	if at.Before(now) {
		at = now
	}
	t.mu.free = at.Add(time.Duration(min(float64(n)/rate, 1e6) * float64(time.Second)))
	t.mu.Unlock()
	return sleep(ctx, at.Sub(now))
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
