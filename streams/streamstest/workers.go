package streamstest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
)

// settleTime is longer than any wait of a worker that has nothing to do: a few commits, one for
// each sub-topology behind the others.
const settleTime = 3 * time.Second

// Workers runs a topology as it is run in production: workers with state files over a log, here one
// in memory. It must be used in a bubble of testing/synctest, because it waits by its clock.
type Workers struct {
	// Log is the log, for faults.
	Log *client.Memory
	// Tune, if set, changes what a worker is made with.
	Tune func(*task.Options)

	topo  *topology.Topology
	parts map[string]int32
	dir   string
	ended bool
	// running are the workers by name; seats is how many share the tasks without a group, 0 with one.
	running map[string]*running
	seats   int
	round   int
}

// running is a worker and what its Run returned.
type running struct {
	w      *task.Worker
	cancel context.CancelFunc
	done   chan error
}

// NewLog builds the topology and makes its log, without workers. dir gets their state.
func NewLog(b *topology.Builder, dir string, o Options) (*Workers, error) {
	ws := &Workers{Log: client.NewMemory(), parts: map[string]int32{}, dir: dir,
		running: map[string]*running{}}
	topo, err := b.Build(func(topic string) int32 {
		ws.parts[topic] = max(1, o.Partitions[topic])
		return ws.parts[topic]
	})
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	ws.topo = topo
	for topic, n := range o.Partitions {
		ws.parts[topic] = n
	}
	for _, sub := range topo.Subs {
		for _, topic := range task.OutputTopics(sub) {
			ws.parts[topic] = max(1, ws.parts[topic])
		}
	}
	for _, x := range topo.InternalTopics() {
		delete(ws.parts, x.Name) // the workers make it
	}
	for topic, n := range ws.parts {
		err := ws.Log.Admin().CreateTopics(context.Background(),
			client.TopicSpec{Name: topic, Partitions: n})
		if err != nil {
			return nil, err
		}
	}
	return ws, nil
}

// NewWorkers builds the topology and starts n workers, each of which has a part of its tasks.
func NewWorkers(b *topology.Builder, n int, dir string, o Options) (*Workers, error) {
	ws, err := NewLog(b, dir, o)
	if err != nil {
		return nil, err
	}
	ws.seats = n
	return ws, ws.startAll()
}

// startAll starts the workers; task i of all belongs to worker i+round.
func (ws *Workers) startAll() error {
	numbers := map[string]int{}
	for _, sub := range ws.topo.Subs {
		for p := range sub.Partitions {
			numbers[fmt.Sprint(sub.Name, " ", p)] = len(numbers)
		}
	}
	for i := range ws.seats {
		err := ws.start(fmt.Sprint("worker-", i), task.Options{
			Owns: func(sub string, p int32) bool {
				return (numbers[fmt.Sprint(sub, " ", p)]+ws.round)%ws.seats == i
			}})
		if err != nil {
			return err
		}
	}
	return nil
}

// Join starts a worker that shares the tasks with the others of the group. A worker of the same
// name that was there before has left its state files to it.
func (ws *Workers) Join(name string, share task.Share) error {
	return ws.start(name, task.Options{Share: &share})
}

// start starts a worker.
func (ws *Workers) start(name string, o task.Options) error {
	o.Topology, o.Cluster, o.StateDir = ws.topo, ws.Log, filepath.Join(ws.dir, name)
	if ws.Tune != nil {
		ws.Tune(&o)
	}
	w, err := task.NewWorker(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{w: w, cancel: cancel, done: make(chan error, 1)}
	ws.running[name] = r
	if ws.ended {
		if err := ws.tellEnd(w); err != nil {
			return err
		}
	}
	go func() { r.done <- w.Run(ctx) }()
	return nil
}

// tellEnd tells a worker that the topics outside the topology end where they are.
func (ws *Workers) tellEnd(w *task.Worker) error {
	for topic, n := range ws.parts {
		ends := map[int32]int64{}
		for p := range n {
			tp := client.TopicPartition{Topic: topic, Partition: p}
			ranges, err := ws.Log.Admin().Ranges(context.Background(), tp)
			if err != nil {
				return err
			}
			ends[p] = ranges[tp].End
		}
		w.EndInput(topic, ends)
	}
	return nil
}

// Feed appends records to a partition of a topic.
func (ws *Workers) Feed(topic string, partition int32, recs ...record.Record) error {
	return ws.Log.Append(client.TopicPartition{Topic: topic, Partition: partition}, recs...)
}

// EndOfInput declares that the topics outside the topology end where they are.
func (ws *Workers) EndOfInput() error {
	ws.ended = true
	for _, r := range ws.running {
		if err := ws.tellEnd(r.w); err != nil {
			return err
		}
	}
	return nil
}

// Run lets the workers work until nothing is left to do, and commits.
func (ws *Workers) Run() error {
	<-time.After(settleTime) // by the clock of the bubble, where all else waits before it moves
	return ws.Err()
}

// Err returns why a worker has failed.
func (ws *Workers) Err() error {
	for name, r := range ws.running {
		if e := r.w.Status().Error; e != "" {
			return fmt.Errorf("%s: %s", name, e)
		}
	}
	return nil
}

// Status returns what each worker says.
func (ws *Workers) Status() map[string]task.Status {
	all := map[string]task.Status{}
	for name, r := range ws.running {
		all[name] = r.w.Status()
	}
	return all
}

// Done reports that all workers have ended, because all tasks were processed to the end of input.
func (ws *Workers) Done() bool {
	for _, r := range ws.running {
		if len(r.done) == 0 {
			return false
		}
	}
	return true
}

// Move ends all workers, every second time as a kill would, and starts them with each other's
// tasks.
func (ws *Workers) Move() error {
	if err := ws.Stop(ws.round%2 == 1); err != nil {
		return err
	}
	ws.round++
	return ws.startAll()
}

// Stop ends workers, all if none is named; kill ends them as the death of their process would.
func (ws *Workers) Stop(kill bool, names ...string) error {
	var errs []error
	stopped := map[string]*running{}
	for name, r := range ws.running {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		stopped[name] = r
		if kill {
			r.w.Kill()
		}
		r.cancel()
	}
	for name, r := range stopped {
		if err := <-r.done; err != nil && !kill {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		delete(ws.running, name)
	}
	return errors.Join(errs...)
}

// Output returns the records of a topic, partition by partition, without the lane headers.
func (ws *Workers) Output(topic string) []Record {
	var list []Record
	for p := range ws.parts[topic] {
		for _, r := range ws.Partition(topic, p) {
			list = append(list, Record{Partition: p, Record: visible(r)})
		}
	}
	return list
}

// Partition returns the records of a topic partition as they are, lane headers and control records
// included.
func (ws *Workers) Partition(topic string, partition int32) []record.Record {
	return ws.Log.Records(client.TopicPartition{Topic: topic, Partition: partition})
}
