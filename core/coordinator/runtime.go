package coordinator

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Options configure a Runtime. Log and NewMachine are needed; the zero value of the rest works.
type Options struct {
	// Log holds the shards' records.
	Log Log
	// NewMachine makes the empty machine of a shard; called each time the shard loads.
	NewMachine func(shard int32) Machine
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger gets state changes; default discards.
	Logger *slog.Logger
	// QueueLimit is how many inputs may wait in one shard; more are answered with
	// COORDINATOR_NOT_AVAILABLE so that a stalled disk does not fill memory. Default 65536.
	QueueLimit int
	// AppendTimeout bounds one append; default 5 s (offsets.commit.timeout.ms).
	AppendTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.QueueLimit <= 0 {
		o.QueueLimit = 65536
	}
	if o.AppendTimeout <= 0 {
		o.AppendTimeout = 5 * time.Second
	}
	return o
}

// Runtime owns the shards of one internal topic on this node. Make it with New, end it with Close.
type Runtime struct {
	opts   Options
	ctx    context.Context // lifetime of all shards
	cancel context.CancelFunc
	wg     sync.WaitGroup // shard goroutines

	mu struct {
		sync.RWMutex
		closed bool
		shards map[int32]*shard // those this node leads
	}
}

// New makes a Runtime that leads no shard yet.
func New(opts Options) *Runtime {
	r := &Runtime{opts: opts.withDefaults()}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.mu.shards = make(map[int32]*shard)
	return r
}

// Lead makes this node answer for a shard from leaderEpoch on: it starts loading and returns. A
// call with the epoch that is already led changes nothing; a higher one loads anew.
func (r *Runtime) Lead(partition, leaderEpoch int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return
	}
	old := r.mu.shards[partition]
	if old != nil {
		if leaderEpoch <= old.epoch {
			return
		}
		old.stop()
	}
	s := newShard(r, partition, leaderEpoch)
	r.mu.shards[partition] = s
	r.wg.Go(func() {
		if old != nil {
			<-old.ended
		}
		s.run()
	})
}

// Resign ends this node's leadership of a shard: whatever waits there is answered with
// NOT_COORDINATOR, soon after Resign has returned.
func (r *Runtime) Resign(partition int32) {
	r.mu.Lock()
	s := r.mu.shards[partition]
	delete(r.mu.shards, partition)
	r.mu.Unlock()
	if s != nil {
		s.stop()
	}
}

// Leading returns the shards this node leads, loaded or not, with the epoch of each.
func (r *Runtime) Leading() map[int32]int32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := make(map[int32]int32, len(r.mu.shards))
	for partition, s := range r.mu.shards {
		m[partition] = s.epoch
	}
	return m
}

// Submit hands an input to a shard. done is called exactly once: with the machine's answer and
// CodeNone; or with nil and NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or
// COORDINATOR_NOT_AVAILABLE. It runs on the shard's goroutine, or before Submit returns, and must
// not block.
func (r *Runtime) Submit(partition int32, in any, done func(out any, code ErrorCode)) {
	r.mu.RLock()
	s := r.mu.shards[partition]
	r.mu.RUnlock()
	if s == nil {
		done(nil, CodeNotCoordinator)
		return
	}
	if code := s.enqueue(call{in: in, done: done}); code != CodeNone {
		done(nil, code)
	}
}

// Ready says whether a shard is led and loaded: inputs to it are being handled.
func (r *Runtime) Ready(partition int32) bool {
	r.mu.RLock()
	s := r.mu.shards[partition]
	r.mu.RUnlock()
	return s != nil && s.phase() == phaseActive
}

// Close stops all shards, answers what waits with NOT_COORDINATOR and joins the goroutines.
func (r *Runtime) Close() {
	r.mu.Lock()
	r.mu.closed = true
	for partition, s := range r.mu.shards {
		s.stop()
		delete(r.mu.shards, partition)
	}
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
}
