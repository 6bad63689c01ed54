package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// Waits between two openings of a task that was lost.
const (
	firstReopen   = 20 * time.Millisecond
	longestReopen = 5 * time.Second
	// steadyAfter is how long a task must have run for its earlier losses to be forgotten.
	steadyAfter = time.Minute
)

// runs are the goroutines of a worker's tasks.
type runs struct {
	w *Worker
	// fail stops all of them for an error.
	fail  func(error)
	tasks sync.WaitGroup
	// others are the readers, which end with the context readers.
	others  *sync.WaitGroup
	readers context.Context
}

// tend runs a task until ctx ends, its input ends, or it fails.
func (r *runs) tend(ctx context.Context, s *seat) error {
	err := r.w.tend(ctx, r, s)
	if err != nil {
		s.status.trouble(err)
		s.status.phase(Failed)
		r.w.opts.Logger.Error("task failed", "task", s.name, "error", err)
	}
	return err
}

// tend opens and runs a task, and again whenever it is lost: when its transaction was ended by
// others, or nobody knows how it ended, or the log is away, or its state file turns out to be
// damaged. Opening finds out what is committed.
func (w *Worker) tend(ctx context.Context, r *runs, s *seat) error {
	wait := firstReopen
	for {
		began := time.Now()
		t, err := w.once(ctx, r, s)
		switch {
		case t.killed.Load(), err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil
		case err == nil && t.core != nil && t.core.Done():
			s.status.phase(Done)
			return nil
		case err == nil:
			s.status.phase(Stopped)
			return nil
		case !errors.Is(err, client.ErrLost) && !errors.Is(err, client.ErrUnavailable) &&
			!errors.Is(err, state.ErrDamaged):
			return err
		case ctx.Err() != nil: // lost with the last commit; the next run makes it again
			s.status.phase(Stopped)
			return nil
		}
		if time.Since(began) > steadyAfter {
			wait = firstReopen
		}
		s.status.lost(err)
		s.status.phase(Restoring)
		t.log.Warn("task lost, it is opened again at its last commit", "error", err, "wait", wait)
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
		wait = min(2*wait, longestReopen)
	}
}

// once opens a task and runs it until it ends in some way.
func (w *Worker) once(ctx context.Context, r *runs, s *seat) (t *loop, err error) {
	t = newLoop(w.opts, s)
	t.committed = w.committed
	w.mu.Lock()
	s.loop = t
	t.killed.Store(w.mu.killed)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		s.loop = nil
		w.mu.Unlock()
		err = errors.Join(err, t.close(ctx, err))
	}()
	select {
	case w.opening <- struct{}{}:
	case <-ctx.Done():
		return t, ctx.Err()
	}
	err = t.open(ctx, w.setup.of(t))
	<-w.opening
	if err != nil {
		return t, err
	}
	for tp, end := range w.bounds() {
		t.inbox.end(tp, end)
	}
	reader, err := w.readerOf(r, t)
	if err != nil {
		return t, err
	}
	t.reader = reader
	s.status.phase(Running)
	reader.add(t)
	defer reader.remove(t)
	return t, t.run(ctx)
}

// readerOf returns the reader of the task's sub-topology, and starts it when it is the first of it.
// They are apart because a task may hold back a topic that a task of another sub-topology needs to
// go on.
func (w *Worker) readerOf(r *runs, t *loop) (*reader, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if have := w.mu.readers[t.sub.ID]; have != nil {
		return have, nil
	}
	consumer, err := w.opts.Cluster.Consumer()
	if err != nil {
		return nil, err
	}
	reader := newReader(consumer)
	w.mu.readers[t.sub.ID] = reader
	r.others.Go(func() {
		if err := reader.run(r.readers); err != nil {
			r.fail(fmt.Errorf("pipeline %s: read inputs of %s: %w", w.opts.Topology.App, t.sub.Name,
				err))
		}
		consumer.Close()
	})
	return reader, nil
}
