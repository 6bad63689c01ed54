package task

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millstream-io/millstream/streams/client"
)

// patience is how long the reader lets a task with a full inbox catch up before it pauses the
// task's partitions. A paused partition costs up to a fetch wait when it is resumed, so a task that
// is merely busy should not be paused.
const patience = 20 * time.Millisecond

// reader polls the one consumer of a worker and spreads what it gets over the tasks.
type reader struct {
	consumer client.Consumer
	routes   map[client.TopicPartition][]*loop // fixed before run
	mu       struct {
		sync.Mutex
		// pauses counts how many tasks want a partition paused.
		pauses map[client.TopicPartition]int
	}
}

func newReader(consumer client.Consumer) *reader {
	r := &reader{consumer: consumer, routes: map[client.TopicPartition][]*loop{}}
	r.mu.pauses = map[client.TopicPartition]int{}
	return r
}

// add routes the inputs of a task to it, before run.
func (r *reader) add(t *loop) {
	for _, in := range t.inputs {
		r.routes[in.tp] = append(r.routes[in.tp], t)
	}
}

// start assigns each partition at the lowest position a task wants it from; tasks drop what they
// have.
func (r *reader) start() {
	for tp, tasks := range r.routes {
		at := tasks[0].byTP[tp].at
		for _, t := range tasks[1:] {
			at = min(at, t.byTP[tp].at)
		}
		r.consumer.Assign(tp, at)
	}
}

// run reads until ctx ends or reading fails.
func (r *reader) run(ctx context.Context) error {
	for {
		runs, err := r.consumer.Poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		var full []*loop
		for _, run := range runs {
			tasks := r.routes[run.TopicPartition]
			for i, t := range tasks {
				if i > 0 { // each task owns its slice; the bytes are only read
					run.Records = slices.Clone(run.Records)
				}
				if t.inbox.push(run) && !slices.Contains(full, t) {
					full = append(full, t)
				}
			}
		}
		for _, t := range full {
			r.throttle(ctx, t)
		}
	}
}

// throttle waits for a task with a full inbox, and pauses its partitions if it does not catch up.
func (r *reader) throttle(ctx context.Context, t *loop) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for t.inbox.isFull() {
		select {
		case <-ctx.Done():
			return
		case <-t.done:
			return
		case <-t.inbox.drained:
		case <-timer.C:
			r.hold(t.partitions()...)
			if !t.inbox.pauseIfFull() {
				r.release(t.partitions()...)
			}
			return
		}
	}
}

// hold pauses partitions for one task.
func (r *reader) hold(tps ...client.TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tp := range tps {
		if r.mu.pauses[tp]++; r.mu.pauses[tp] == 1 {
			r.consumer.Pause(tp)
		}
	}
}

// release undoes one hold.
func (r *reader) release(tps ...client.TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tp := range tps {
		if r.mu.pauses[tp]--; r.mu.pauses[tp] == 0 {
			delete(r.mu.pauses, tp)
			r.consumer.Resume(tp)
		}
	}
}
