package client

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// unacked is what a producer has on its way, and what became of the rest.
type unacked struct {
	limit   int64 // bytes without acknowledgement
	stall   time.Duration
	log     *slog.Logger
	waiters *waiters

	mu struct {
		sync.Mutex
		// bytes and sends that are not acknowledged.
		bytes int64
		sends int
		acked map[TopicPartition]int64
		err   error
		// still is since when something waits and nothing was acknowledged.
		still time.Time
		// moved is closed when a send was acknowledged or failed; nil when nobody waits.
		moved chan struct{}
	}
}

func (k *Kafka) newUnacked() *unacked {
	u := &unacked{limit: k.opts.BufferBytes, stall: k.opts.StallAfter, log: k.opts.Logger,
		waiters: &k.waiters}
	u.mu.acked = map[TopicPartition]int64{}
	u.waiters.add(u)
	return u
}

// admit waits until bytes more may be on their way.
func (u *unacked) admit(ctx context.Context, bytes int64) error {
	for {
		u.mu.Lock()
		if err := u.mu.err; err != nil {
			u.mu.Unlock()
			return err
		}
		if u.mu.sends == 0 || u.mu.bytes+bytes <= u.limit {
			u.addLocked(bytes)
			u.mu.Unlock()
			return nil
		}
		moved, bytes := u.movedLocked(), u.mu.bytes
		u.mu.Unlock()
		if err := u.wait(ctx, moved, bytes); err != nil {
			return err
		}
	}
}

// wait waits until something was acknowledged, and logs it when that takes long.
func (u *unacked) wait(ctx context.Context, moved <-chan struct{}, bytes int64) error {
	began := time.Now()
	stalled := time.NewTicker(u.stall)
	defer stalled.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
			return nil
		case <-stalled.C:
			u.log.Warn("the broker does not take records, they wait: is it up, and has its disk space?",
				"waited", time.Since(began).Round(time.Millisecond), "bytes", bytes)
		}
	}
}

func (u *unacked) movedLocked() chan struct{} {
	if u.mu.moved == nil {
		u.mu.moved = make(chan struct{})
	}
	return u.mu.moved
}

// add puts a send on its way that has to be, whatever the bound is.
func (u *unacked) add(bytes int64) {
	u.mu.Lock()
	u.addLocked(bytes)
	u.mu.Unlock()
}

func (u *unacked) addLocked(bytes int64) {
	if u.mu.sends == 0 {
		u.mu.still = time.Now()
	}
	u.mu.bytes += bytes
	u.mu.sends++
}

// settle takes a send off the way: it was appended up to next, or failed.
func (u *unacked) settle(tp TopicPartition, bytes, next int64, err error) {
	u.mu.Lock()
	u.mu.bytes -= bytes
	u.mu.sends--
	u.mu.still = time.Now()
	if next > u.mu.acked[tp] {
		u.mu.acked[tp] = next
	}
	if err != nil && u.mu.err == nil {
		u.mu.err = err
	}
	u.wakeLocked()
	u.mu.Unlock()
}

// fail makes err the answer to everything that follows, if nothing failed before.
func (u *unacked) fail(err error) error {
	u.mu.Lock()
	if u.mu.err == nil {
		u.mu.err = err
	}
	u.wakeLocked()
	u.mu.Unlock()
	return err
}

// failed returns what was said by fail or settle.
func (u *unacked) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.err
}

func (u *unacked) wakeLocked() {
	if u.mu.moved != nil {
		close(u.mu.moved)
		u.mu.moved = nil
	}
}

// Flush implements Producer.
func (u *unacked) Flush(ctx context.Context) error {
	for {
		u.mu.Lock()
		if u.mu.sends == 0 || u.mu.err != nil {
			err := u.mu.err
			u.mu.Unlock()
			return err
		}
		moved, bytes := u.movedLocked(), u.mu.bytes
		u.mu.Unlock()
		if err := u.wait(ctx, moved, bytes); err != nil {
			return err
		}
	}
}

// Acked implements Producer.
func (u *unacked) Acked(tp TopicPartition) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if next, ok := u.mu.acked[tp]; ok {
		return next
	}
	return -1
}
