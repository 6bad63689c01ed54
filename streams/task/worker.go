package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// openAtOnce bounds the tasks that restore at the same time.
const openAtOnce = 4

// Worker runs tasks of a topology in this process: all, those of Options.Owns, or those its group
// gives it.
type Worker struct {
	opts  Options
	seats []*seat
	// opening holds a token for each task that restores.
	opening chan struct{}
	setup   *setup // of prepare, fixed before the tasks start
	// places are the addresses of the workers that run tasks, by task id; nil without a group.
	places atomic.Pointer[map[string]string]

	mu struct {
		sync.Mutex
		started bool
		err     error
		// stop ends Run; killed says that it must do so without a last commit.
		stop   context.CancelFunc
		killed bool
		// ends are the bounds sources reported.
		ends map[client.TopicPartition]int64
		// readers are the consumers, by sub-topology.
		readers map[int]*reader
		// processed are the committed positions in repartition topics.
		processed map[client.TopicPartition]int64
	}
}

// seat is the place of one task of the topology in this worker.
type seat struct {
	sub       *topology.Sub
	partition int32
	name      string // <app>.<sub>.<partition>
	status    taskStatus
	// loop is the task when it is here, guarded by Worker.mu.
	loop *loop
}

// NewWorker makes a worker; nothing is read or written before Run.
func NewWorker(opts Options) (*Worker, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	w := &Worker{opts: opts, opening: make(chan struct{}, openAtOnce)}
	w.mu.ends = map[client.TopicPartition]int64{}
	w.mu.readers = map[int]*reader{}
	w.mu.processed = map[client.TopicPartition]int64{}
	for _, sub := range opts.Topology.Subs {
		for p := range sub.Partitions {
			if opts.Owns != nil && !opts.Owns(sub.Name, p) {
				continue
			}
			s := &seat{sub: sub, partition: p,
				name: fmt.Sprintf("%s.%s.%d", opts.Topology.App, sub.Name, p)}
			s.status.mu.streamTime = operator.NoTime
			w.seats = append(w.seats, s)
		}
	}
	return w, nil
}

// EndInput tells where the partitions of a topic end, when the source that fills it has ended.
// Tasks read up to there. It may be called at any time, also before Run.
func (w *Worker) EndInput(topic string, ends map[int32]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, end := range ends {
		tp := client.TopicPartition{Topic: topic, Partition: p}
		w.mu.ends[tp] = end
		for _, s := range w.seats {
			if s.loop != nil {
				s.loop.inbox.end(tp, end)
			}
		}
	}
}

// Status tells where every task is. Any goroutine may call it at any time.
func (w *Worker) Status() Status {
	st := Status{Tasks: make([]TaskStatus, len(w.seats))}
	for i, s := range w.seats {
		st.Tasks[i] = s.snapshot()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err != nil {
		st.Error = w.mu.err.Error()
	}
	return st
}

// Run makes internal topics, restores tasks and processes until ctx ends, all bounded input is
// processed or a task fails. When ctx ends, tasks commit what they have and Run returns nil. A
// failure stops all tasks, each at its last commit, and is returned. Run can be called once.
func (w *Worker) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.mu.Lock()
	again := w.mu.started
	w.mu.started, w.mu.stop = true, stop
	if w.mu.killed {
		stop()
	}
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
	for _, s := range w.seats {
		if s.loop != nil {
			s.loop.killed.Store(true)
		}
	}
	if w.mu.stop != nil {
		w.mu.stop()
	}
}

func (w *Worker) run(ctx context.Context) error {
	s, err := w.prepare(ctx)
	if err != nil {
		return err
	}
	w.setup = s
	running, stop := context.WithCancel(ctx)
	defer stop()
	var failures firstError
	fail := func(err error) {
		failures.note(err)
		stop()
	}
	var others sync.WaitGroup
	others.Go(func() { w.purge(running) })
	r := &runs{w: w, fail: fail, others: &others, readers: running}
	if w.opts.Share != nil {
		if err := w.share(running, r); err != nil {
			fail(err)
		}
	} else {
		for _, s := range w.seats { // one that is not open yet is behind, too
			if skewOf(s.sub) > 0 {
				w.opts.paces.tell(s.sub.ID, s.name, operator.NoTime, true)
			}
		}
		for _, s := range w.seats {
			r.tasks.Go(func() {
				err := r.tend(running, s)
				if err == nil && running.Err() == nil {
					err = w.endRepartitions(running, w.done())
				}
				if err != nil {
					fail(err)
				}
			})
		}
	}
	r.tasks.Wait()
	stop()
	others.Wait()
	return failures.err()
}

// done are the names of the tasks here that have processed the end of their input.
func (w *Worker) done() map[string]bool {
	names := map[string]bool{}
	for _, s := range w.seats {
		if s.snapshot().Phase == Done {
			names[s.name] = true
		}
	}
	return names
}

// endRepartitions tells the tasks that read a repartition topic where it ends, when all who write
// it are done. Its writers tell them too, but a task that is opened again has read that already.
func (w *Worker) endRepartitions(ctx context.Context, done map[string]bool) error {
	for _, sub := range w.opts.Topology.Subs {
		for i := range sub.Sources {
			source := &sub.Sources[i]
			if !source.Repartition() || !all(source.Writers, done) {
				continue
			}
			var tps []client.TopicPartition
			for p := range source.Partitions {
				tps = append(tps, client.TopicPartition{Topic: source.Topic, Partition: p})
			}
			ranges, err := w.opts.Cluster.Admin().Ranges(ctx, tps...)
			if err != nil {
				return err
			}
			ends := map[int32]int64{}
			for tp, r := range ranges {
				ends[tp.Partition] = r.End
			}
			w.EndInput(source.Topic, ends)
		}
	}
	return nil
}

func all(names []string, in map[string]bool) bool {
	for _, name := range names {
		if !in[name] {
			return false
		}
	}
	return len(names) > 0
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

// committed notes what a task has processed of repartition topics.
func (w *Worker) committed(inputs []Input) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, in := range inputs {
		if in.Repartition {
			tp := client.TopicPartition{Topic: in.Topic, Partition: in.Partition}
			w.mu.processed[tp] = in.Offset
		}
	}
}

// bounds returns the ends that sources have reported.
func (w *Worker) bounds() map[client.TopicPartition]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.mu.ends)
}
