package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
)

// openAtOnce bounds the tasks that restore at the same time.
const openAtOnce = 4

// Worker runs all tasks of a topology in this process.
type Worker struct {
	opts  Options
	loops []*loop

	mu struct {
		sync.Mutex
		started bool
		err     error
		// stop ends Run; killed says that it must do so without a last commit.
		stop   context.CancelFunc
		killed bool
		// ends are the bounds sources reported.
		ends map[client.TopicPartition]int64
		// offsets are committed positions not shown in the group yet.
		offsets map[client.TopicPartition]map[*loop]int64
		changed bool
		// written are the committed ends of what each task wrote to repartition topics.
		written map[client.TopicPartition]map[string]int64
	}
}

// NewWorker makes a worker; nothing is read or written before Run.
func NewWorker(opts Options) (*Worker, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	w := &Worker{opts: opts}
	w.mu.ends = map[client.TopicPartition]int64{}
	w.mu.offsets = map[client.TopicPartition]map[*loop]int64{}
	w.mu.written = map[client.TopicPartition]map[string]int64{}
	for _, sub := range opts.Topology.Subs {
		for p := range sub.Partitions {
			if opts.Owns != nil && !opts.Owns(sub.Name, p) {
				continue
			}
			t := newLoop(opts, sub, p)
			t.committed = w.committed
			t.status.mu.streamTime = operator.NoTime
			w.loops = append(w.loops, t)
		}
	}
	return w, nil
}

// EndInput tells where the partitions of a topic end, when the source that fills it has ended.
// Tasks read up to there. It may be called at any time, also before Run.
func (w *Worker) EndInput(topic string, ends map[int32]int64) {
	w.mu.Lock()
	for p, end := range ends {
		w.mu.ends[client.TopicPartition{Topic: topic, Partition: p}] = end
	}
	w.mu.Unlock()
	for _, t := range w.loops {
		for p, end := range ends {
			t.inbox.end(client.TopicPartition{Topic: topic, Partition: p}, end)
		}
	}
}

// Status tells where every task is. Any goroutine may call it at any time.
func (w *Worker) Status() Status {
	st := Status{Tasks: make([]TaskStatus, len(w.loops))}
	for i, t := range w.loops {
		st.Tasks[i] = t.snapshot()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err != nil {
		st.Error = w.mu.err.Error()
	}
	return st
}

// Run makes internal topics, restores all tasks and processes until ctx ends, all bounded input is
// processed or a task fails. When ctx ends, tasks commit what they have and Run returns nil. A
// failure stops all tasks, each at its last commit, and is returned. Run can be called once.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.mu.started
	w.mu.started = true
	w.mu.Unlock()
	if again {
		return errors.New("run worker: it has run already")
	}
	err := w.run(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // told to stop while starting
	}
	w.mu.Lock()
	w.mu.err = err
	w.mu.Unlock()
	return err
}

// Kill ends Run as the death of the process would: what is not committed is lost, state files are
// left as they are. It is for tests.
func (w *Worker) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.killed = true
	for _, t := range w.loops {
		t.killed.Store(true)
	}
	if w.mu.stop != nil {
		w.mu.stop()
	}
}

func (w *Worker) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.mu.stop = cancel
	if w.mu.killed {
		cancel()
	}
	w.mu.Unlock()
	s, err := w.prepare(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, t := range w.loops {
			err = errors.Join(err, t.close(err))
		}
	}()
	if err := w.openAll(ctx, s); err != nil {
		return err
	}
	readers, err := w.readers()
	if err != nil {
		return err
	}
	for _, t := range w.loops { // ends reported while opening
		w.mu.Lock()
		for tp, end := range w.mu.ends {
			t.inbox.end(tp, end)
		}
		w.mu.Unlock()
	}
	return w.loop(ctx, readers)
}

// openAll opens the tasks, some at a time.
func (w *Worker) openAll(ctx context.Context, s *setup) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, openAtOnce)
	for _, t := range w.loops {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			if err := t.open(ctx, s.of(t)); err != nil {
				t.failed(err)
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// readers makes one consumer per sub-topology. They are apart because a task may hold back a topic
// that a task of another sub-topology needs to go on.
func (w *Worker) readers() ([]*reader, error) {
	bySub := map[int]*reader{}
	var all []*reader
	for _, t := range w.loops {
		r := bySub[t.sub.ID]
		if r == nil {
			consumer, err := w.opts.Cluster.Consumer()
			if err != nil {
				for _, r := range all {
					r.consumer.Close()
				}
				return nil, err
			}
			r = newReader(consumer)
			bySub[t.sub.ID] = r
			all = append(all, r)
		}
		r.add(t)
		t.reader = r
	}
	return all, nil
}

// loop runs tasks, readers and the group's commits until all tasks have ended.
func (w *Worker) loop(ctx context.Context, readers []*reader) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var failures firstError
	var tasks, others sync.WaitGroup
	for _, r := range readers {
		r.start()
		others.Go(func() {
			if err := r.run(running); err != nil {
				failures.note(fmt.Errorf("read inputs: %w", err))
				stop()
			}
			r.consumer.Close()
		})
	}
	others.Go(func() { w.showOffsets(running) })
	others.Go(func() { w.purge(running) })
	for _, t := range w.loops {
		t.status.phase(Running)
		tasks.Go(func() {
			err := t.run(running)
			switch {
			case err != nil:
				t.failed(err)
				failures.note(err) // also that of a last commit, after ctx's end
				stop()
			case t.core.Done():
				t.status.phase(Done)
			default:
				t.status.phase(Stopped)
			}
		})
	}
	tasks.Wait()
	stop()
	others.Wait()
	return failures.err()
}

// firstError keeps the failure that stopped the others.
type firstError struct {
	mu struct {
		sync.Mutex
		err error
	}
}

func (f *firstError) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.err == nil {
		f.mu.err = err
	}
}

func (f *firstError) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.err
}

// failed notes why a task ended.
func (t *loop) failed(err error) {
	t.status.trouble(err)
	t.status.phase(Failed)
	t.log.Error("task failed", "error", err)
}

// committed notes the positions of a task, to be shown in the group.
func (w *Worker) committed(t *loop, inputs []Input) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, in := range inputs {
		tp := client.TopicPartition{Topic: in.Topic, Partition: in.Partition}
		if w.mu.offsets[tp] == nil {
			w.mu.offsets[tp] = map[*loop]int64{}
		}
		w.mu.offsets[tp][t] = t.position(in)
	}
	for _, o := range t.last.Outputs {
		if w.mu.written[o.TopicPartition] == nil {
			w.mu.written[o.TopicPartition] = map[string]int64{}
		}
		w.mu.written[o.TopicPartition][t.name] = o.Next
	}
	w.mu.changed = true
}

// showOffsets commits positions to the group, so that tools see them, until ctx ends and a last
// time then. The commit record is what counts; so trouble here is only reported.
func (w *Worker) showOffsets(ctx context.Context) {
	ticker := time.NewTicker(w.opts.CommitInterval)
	defer ticker.Stop()
	shown := map[client.TopicPartition]int64{}
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.opts.DrainTimeout)
			defer cancel()
			w.show(last, shown)
			return
		case <-ticker.C:
			w.show(ctx, shown)
		}
	}
}

// show commits the positions that are not in shown.
func (w *Worker) show(ctx context.Context, shown map[client.TopicPartition]int64) {
	next := map[client.TopicPartition]int64{}
	w.mu.Lock()
	changed := w.mu.changed
	w.mu.changed = false
	if changed {
		for tp, tasks := range w.mu.offsets {
			at := int64(-1)
			for _, offset := range tasks { // several tasks may read it: the slowest counts
				if at < 0 || offset < at {
					at = offset
				}
			}
			if have, ok := shown[tp]; !ok || have != at {
				next[tp] = at
			}
		}
	}
	w.mu.Unlock()
	if len(next) == 0 {
		return
	}
	if err := w.opts.Cluster.Admin().CommitOffsets(ctx, w.opts.Group, next); err != nil {
		w.opts.Logger.Warn("offsets not shown in the group", "group", w.opts.Group, "error", err)
		w.mu.Lock()
		w.mu.changed = true
		w.mu.Unlock()
		return
	}
	maps.Copy(shown, next)
}
