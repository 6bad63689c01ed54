package streamstest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
	topo    *topology.Topology
	cluster *client.Memory
	parts   map[string]int32
	dir     string
	ended   bool
	running []*running
	n       int
	round   int
}

// running is a worker and what its Run returned.
type running struct {
	w      *task.Worker
	cancel context.CancelFunc
	done   chan error
}

// NewWorkers builds the topology and starts n workers, which share its tasks. dir gets their state.
func NewWorkers(b *topology.Builder, n int, dir string, o Options) (*Workers, error) {
	ws := &Workers{cluster: client.NewMemory(), parts: map[string]int32{}, dir: dir, n: n}
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
		err := ws.cluster.Admin().CreateTopics(context.Background(),
			client.TopicSpec{Name: topic, Partitions: n})
		if err != nil {
			return nil, err
		}
	}
	return ws, ws.start()
}

// start starts the workers; task i of all belongs to worker i+round.
func (ws *Workers) start() error {
	for i := range ws.n {
		numbers := map[string]int{}
		number := 0
		for _, sub := range ws.topo.Subs {
			for p := range sub.Partitions {
				numbers[fmt.Sprint(sub.Name, " ", p)] = number
				number++
			}
		}
		w, err := task.NewWorker(task.Options{Topology: ws.topo, Cluster: ws.cluster,
			StateDir: filepath.Join(ws.dir, fmt.Sprint("worker-", i)),
			Owns: func(sub string, p int32) bool {
				return (numbers[fmt.Sprint(sub, " ", p)]+ws.round)%ws.n == i
			}})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		r := &running{w: w, cancel: cancel, done: make(chan error, 1)}
		ws.running = append(ws.running, r)
		if ws.ended {
			if err := ws.tellEnd(w); err != nil {
				return err
			}
		}
		go func() { r.done <- w.Run(ctx) }()
	}
	return nil
}

// tellEnd tells a worker that the topics outside the topology end where they are.
func (ws *Workers) tellEnd(w *task.Worker) error {
	for topic, n := range ws.parts {
		ends := map[int32]int64{}
		for p := range n {
			tp := client.TopicPartition{Topic: topic, Partition: p}
			ranges, err := ws.cluster.Admin().Ranges(context.Background(), tp)
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
	return ws.cluster.Append(client.TopicPartition{Topic: topic, Partition: partition}, recs...)
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
	for _, r := range ws.running {
		if e := r.w.Status().Error; e != "" {
			return errors.New(e)
		}
	}
	return nil
}

// Move ends all workers, every second time as a kill would, and starts them with each other's
// tasks.
func (ws *Workers) Move() error {
	if err := ws.Stop(ws.round%2 == 1); err != nil {
		return err
	}
	ws.round++
	return ws.start()
}

// Stop ends all workers; kill ends them as the death of their process would.
func (ws *Workers) Stop(kill bool) error {
	var errs []error
	for _, r := range ws.running {
		if kill {
			r.w.Kill()
		}
		r.cancel()
	}
	for _, r := range ws.running {
		if err := <-r.done; err != nil && !kill {
			errs = append(errs, err)
		}
	}
	ws.running = nil
	return errors.Join(errs...)
}

// Output returns the records of a topic, partition by partition, without the lane headers.
func (ws *Workers) Output(topic string) []Record {
	var list []Record
	for p := range ws.parts[topic] {
		tp := client.TopicPartition{Topic: topic, Partition: p}
		for _, r := range ws.cluster.Records(tp) {
			list = append(list, Record{Partition: p, Record: visible(r)})
		}
	}
	return list
}
