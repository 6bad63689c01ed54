package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

const (
	// frameRecords and frameBytes are the most records and bytes one frame is filled with; a larger
	// record has a frame of its own.
	frameRecords = 1000
	frameBytes   = 1 << 20
	// queuedCalls bounds what waits for an answer; Submit waits beyond it.
	queuedCalls = 32
	// drainTimeout bounds the drain of a stream at its Close.
	drainTimeout = 5 * time.Second
	// retryWaitMin and retryWaitMax bound the pause before a part that asked for it is opened again.
	retryWaitMin = 100 * time.Millisecond
	retryWaitMax = 30 * time.Second
)

type clientStream = grpc.BidiStreamingClient[pluginpb.ToPlugin, pluginpb.FromPlugin]

// call is one frame on its way to the plugin and back. Its fields but done's closing belong to the
// exchange's lock until done is closed, then to the caller.
type call struct {
	seq     uint64
	frame   []byte
	records int
	crashes []*instance // lives that ended while this call was the oldest
	done    chan struct{}
	results *Results // after done, when err is nil and answer is not set
	answer  *answer  // not checked yet
	err     error
	next    []TopicOffset // of a sink: how far the frame goes
}

// exchange sends calls to a part and hands out their answers, in order, across the lives of the
// plugin. Operator and Sink are made of it.
type exchange struct {
	p       *Plugin
	part    string
	task    string
	kind    string
	hang    time.Duration
	connect func(context.Context, pluginpb.PluginClient) (clientStream, error)
	open    func() *pluginpb.Open // called for every stream
	// answered is told each call that is done, before its caller is; nil = nothing to do.
	answered func(*call)

	ctx    context.Context
	cancel context.CancelCauseFunc
	opened chan struct{} // closed when the first stream is open
	done   chan struct{} // closed when run returned
	wake   chan struct{} // one token when there is something to send
	room   chan struct{} // one token when the queue got shorter

	mu struct {
		sync.Mutex
		queue    []*call // unanswered, by seq
		sent     int     // so many of them were sent on this stream
		seq      uint64  // last one given
		err      error   // ended
		draining bool
		progress time.Time // of the oldest call: when it was sent first in line, or answered
		slowest  time.Duration
	}
}

func (e *exchange) start() {
	e.ctx, e.cancel = context.WithCancelCause(e.p.ctx)
	e.opened, e.done = make(chan struct{}), make(chan struct{})
	e.wake, e.room = make(chan struct{}, 1), make(chan struct{}, 1)
	go e.run()
}

// ready waits until the first stream is open, or could not be.
func (e *exchange) ready(ctx context.Context) error {
	select {
	case <-e.opened:
		return nil
	case <-e.done:
		return e.failure()
	case <-ctx.Done():
		return fmt.Errorf("open %s of plugin %q: %w", e.kind, e.p.options.Name, context.Cause(ctx))
	}
}

func (e *exchange) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// submit queues one frame. It waits while the queue is full.
func (e *exchange) submit(ctx context.Context, frame []byte, records int,
	next []TopicOffset) (*call, error) {
	c := &call{frame: frame, records: records, next: next, done: make(chan struct{})}
	for {
		e.mu.Lock()
		switch {
		case e.mu.err != nil:
			err := e.mu.err
			e.mu.Unlock()
			return nil, err
		case e.mu.draining:
			e.mu.Unlock()
			return nil, fmt.Errorf("%s of plugin %q: %w", e.kind, e.p.options.Name, ErrClosed)
		case len(e.mu.queue) < queuedCalls:
			e.mu.seq++
			c.seq = e.mu.seq
			e.mu.queue = append(e.mu.queue, c)
			more := len(e.mu.queue) < queuedCalls
			e.mu.Unlock()
			signal(e.wake)
			if more {
				signal(e.room) // for the next one that waits
			}
			return c, nil
		}
		e.mu.Unlock()
		select {
		case <-e.room:
		case <-e.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// run owns the stream: it opens one on each life of the plugin until the exchange ends.
func (e *exchange) run() {
	defer close(e.done)
	wait := retryWaitMin
	for {
		in, err := e.p.instance(e.ctx)
		if err != nil {
			e.end(err)
			return
		}
		opened, err := e.session(in)
		if opened {
			wait = retryWaitMin
		}
		switch {
		case errors.Is(err, errCrashed):
			err = e.afterCrash(in, err)
		case errors.Is(err, errRetry):
			e.p.options.Logger.Warn("plugin part asks to be opened again",
				"part", e.part, "task", e.task, "error", err, "wait", wait)
			select {
			case <-time.After(wait):
			case <-e.ctx.Done():
			}
			wait = min(retryWaitMax, 2*wait)
			err = nil
		}
		if err != nil {
			e.end(err)
			return
		}
		e.mu.Lock()
		e.mu.sent = 0 // all that is left goes to the next stream
		e.mu.Unlock()
	}
}

// end fails everything that waits.
func (e *exchange) end(err error) {
	if errors.Is(err, errDrained) {
		err = fmt.Errorf("%s of plugin %q: %w", e.kind, e.p.options.Name, ErrClosed)
	}
	e.mu.Lock()
	e.mu.err = err
	queue := e.mu.queue
	e.mu.queue = nil
	e.mu.Unlock()
	for _, c := range queue {
		c.err = err
		close(c.done)
	}
}

// complete takes the oldest call off the queue with its answer.
func (e *exchange) complete(c *call) {
	e.mu.Lock()
	e.mu.queue = e.mu.queue[1:]
	e.mu.sent = max(0, e.mu.sent-1)
	now := time.Now()
	e.mu.slowest = max(now.Sub(e.mu.progress), e.mu.slowest*63/64)
	e.mu.progress = now
	c.frame = nil
	e.mu.Unlock()
	if e.answered != nil {
		e.answered(c)
	}
	close(c.done)
	signal(e.room)
	signal(e.wake)
}

// head is the oldest call if it was sent.
func (e *exchange) head() *call {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.sent == 0 {
		return nil
	}
	return e.mu.queue[0]
}

// afterCrash looks who is to blame. A call that was the oldest at two crashes is taken apart.
func (e *exchange) afterCrash(in *instance, cause error) error {
	c := e.head()
	if c == nil {
		return nil
	}
	c.crashes = append(c.crashes, in)
	if len(c.crashes) < 2 {
		return nil
	}
	e.p.options.Logger.Warn("looking for the record that crashes the plugin",
		"part", e.part, "task", e.task, "records", c.records, "error", cause)
	res, poison, err := e.isolate(c)
	if err != nil {
		return err
	}
	if poison > 0 {
		e.p.excuse(c.crashes)
	}
	c.results = res
	e.complete(c)
	return nil
}

// drain lets the plugin finish what is queued and ends the exchange.
func (e *exchange) drain() error {
	e.mu.Lock()
	e.mu.draining = true
	e.mu.Unlock()
	signal(e.wake)
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-e.done:
	case <-timer.C:
		err = fmt.Errorf("%s of plugin %q did not drain within %s", e.kind, e.p.options.Name, drainTimeout)
	}
	e.cancel(fmt.Errorf("%s of plugin %q: %w", e.kind, e.p.options.Name, ErrClosed))
	<-e.done
	if f := e.failure(); err == nil && !errors.Is(f, ErrClosed) {
		err = f
	}
	return err
}
