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

// reader polls one consumer and spreads what it gets over the tasks of a sub-topology.
type reader struct {
	consumer client.Consumer
	mu       struct {
		sync.Mutex
		routes map[client.TopicPartition]*route
	}
}

// route is one partition and who reads it.
type route struct {
	tasks []*loop
	// next is the position after what was given to the tasks.
	next int64
	// pauses are the tasks that want it paused, and how often.
	pauses map[*loop]int
}

func newReader(consumer client.Consumer) *reader {
	r := &reader{consumer: consumer}
	r.mu.routes = map[client.TopicPartition]*route{}
	return r
}

// add starts to read the inputs of a task from where it wants them. Others that read the same
// partition drop what they have.
func (r *reader) add(t *loop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range t.inputs {
		at := r.mu.routes[in.tp]
		if at == nil {
			at = &route{pauses: map[*loop]int{}, next: in.at}
			r.mu.routes[in.tp] = at
		}
		at.tasks = append(slices.Clone(at.tasks), t)
		if len(at.tasks) == 1 || in.at < at.next {
			at.next = in.at
			r.consumer.Assign(in.tp, in.at)
		}
	}
}

// remove ends the reading for a task.
func (r *reader) remove(t *loop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range t.inputs {
		at := r.mu.routes[in.tp]
		at.tasks = slices.DeleteFunc(slices.Clone(at.tasks), func(o *loop) bool { return o == t })
		held := len(at.pauses) > 0
		delete(at.pauses, t)
		switch {
		case len(at.tasks) == 0:
			r.consumer.Unassign(in.tp)
			delete(r.mu.routes, in.tp)
		case held && len(at.pauses) == 0:
			r.consumer.Resume(in.tp)
		}
	}
}

// route returns the tasks a run goes to.
func (r *reader) route(run *client.Fetched) []*loop {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.mu.routes[run.TopicPartition]
	if at == nil || run.From > at.next {
		return nil // fetched for an earlier reading of the partition
	}
	at.next = max(at.next, run.Next)
	return at.tasks
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
			tasks := r.route(&run)
			if len(tasks) > 1 {
				run.Free = nil
			}
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
			r.hold(t, t.partitions()...)
			if !t.inbox.pauseIfFull() {
				r.release(t, t.partitions()...)
			}
			return
		}
	}
}

// hold pauses partitions for one task.
func (r *reader) hold(t *loop, tps ...client.TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tp := range tps {
		at := r.mu.routes[tp]
		if at == nil || !slices.Contains(at.tasks, t) {
			continue // the task has gone
		}
		if len(at.pauses) == 0 {
			r.consumer.Pause(tp)
		}
		at.pauses[t]++
	}
}

// release undoes one hold.
func (r *reader) release(t *loop, tps ...client.TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tp := range tps {
		at := r.mu.routes[tp]
		if at == nil || at.pauses[t] == 0 {
			continue
		}
		if at.pauses[t]--; at.pauses[t] > 0 {
			continue
		}
		delete(at.pauses, t)
		if len(at.pauses) == 0 {
			r.consumer.Resume(tp)
		}
	}
}
