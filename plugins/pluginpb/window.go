package pluginpb

import (
	"context"
	"sync"
)

// Default credits one side grants the other for a stream.
const (
	DefaultCreditFrames = 8
	DefaultCreditBytes  = 4 << 20
)

// Window counts the credits a sender has. One goroutine takes, any number grants. A frame
// larger than the whole window may go when nothing else is on the way, so that no frame size
// can stall a stream.
type Window struct {
	mu struct {
		sync.Mutex
		frames int64 // may still be sent
		bytes  int64 // may still be sent; negative after an oversized frame
		unpaid int64 // frames taken and not granted back yet
	}
	wake chan struct{} // one token when credits came
}

// NewWindow returns a window with the credits of the opening grant.
func NewWindow(c *Credit) *Window {
	w := &Window{wake: make(chan struct{}, 1)}
	w.mu.frames, w.mu.bytes = int64(c.GetFrames()), clampBytes(c.GetBytes())
	if w.mu.frames == 0 {
		w.mu.frames = 1
	}
	return w
}

func clampBytes(n uint64) int64 { return int64(min(n, 1<<40)) }

// Grant adds what the receiver gave back; nil is nothing.
func (w *Window) Grant(c *Credit) {
	if c.GetFrames() == 0 && c.GetBytes() == 0 {
		return
	}
	w.mu.Lock()
	w.mu.frames += int64(c.GetFrames())
	w.mu.bytes += clampBytes(c.GetBytes())
	w.mu.unpaid = max(0, w.mu.unpaid-int64(c.GetFrames()))
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// TryTake takes one frame of n bytes if the credits allow it.
func (w *Window) TryTake(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.unpaid > 0 && (w.mu.frames < 1 || w.mu.bytes < int64(n)) {
		return false
	}
	w.mu.frames--
	w.mu.bytes -= int64(n)
	w.mu.unpaid++
	return true
}

// Take waits until one frame of n bytes may go. Its error is the cause of ctx's end.
func (w *Window) Take(ctx context.Context, n int) error {
	for !w.TryTake(n) {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Wake gets a token when credits came, for callers of TryTake.
func (w *Window) Wake() <-chan struct{} { return w.wake }
