package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TailTopic carries what people ask to see of running pipelines, and what they are shown: requests
// in partition 0, samples in partition 1. Both mean something for seconds only.
const TailTopic = "__millstream_tail"

// Times and bounds of a tail.
const (
	// tailRenew is how often a request is repeated, tailLease after how long without it it ends.
	tailRenew = 2 * time.Second
	tailLease = 10 * time.Second
	// tailEvery is how often a worker shows what it has.
	tailEvery = 200 * time.Millisecond
	// MaxTailRate is the most records a second that one worker shows; DefaultTailRate what it shows
	// of a request that does not say.
	MaxTailRate     = 1000
	DefaultTailRate = 50
)

// TailRequest asks to see records at a node of a pipeline.
type TailRequest struct {
	ID       string `json:"id"`
	Pipeline string `json:"pipeline"`
	// Node is the id of a source, step or sink. Before shows what comes in instead of what goes out.
	Node   string `json:"node"`
	Before bool   `json:"before,omitempty"`
	// Filter is an expression; records for which it does not hold are left out.
	Filter string `json:"filter,omitempty"`
	// Rate bounds the records a second of each worker.
	Rate int `json:"rate"`
	// Done ends the tail.
	Done bool `json:"done,omitempty"`
}

// TailSample is what one worker shows since its last sample.
type TailSample struct {
	ID     string `json:"id"`
	Worker string `json:"worker"`
	// Seen counts the records that passed since the tail began here, Looked those the filter was
	// asked about, Matched those for which it held, Shown those in Records of all samples.
	Seen    int64 `json:"seen"`
	Looked  int64 `json:"looked"`
	Matched int64 `json:"matched"`
	Shown   int64 `json:"shown"`
	// Failed counts records of which the filter could not say.
	Failed  int64        `json:"failed,omitempty"`
	Records []TailRecord `json:"records,omitempty"`
	// Error tells why nothing is shown.
	Error string `json:"error,omitempty"`
}

// TailRecord is a record as it passed.
type TailRecord struct {
	Task      string `json:"task"`
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Timestamp is the event time in ms, Window the one of a result, in ms.
	Timestamp int64             `json:"timestamp"`
	Window    string            `json:"window,omitempty"`
	Key       []byte            `json:"key"`
	Value     []byte            `json:"value"`
	Headers   map[string][]byte `json:"headers,omitempty"`
	Cut       bool              `json:"cut,omitempty"`
}

// Tail is a view of a running instance; package runner implements it.
type Tail interface {
	// Next gives what passed since the last call, at most so many records.
	Next(most int) TailSample
	// Close ends it.
	Close()
}

// Tailer is an Instance that can be looked at.
type Tailer interface {
	Tail(r TailRequest) (Tail, error)
}

// ErrNoTail reports an instance that cannot be looked at.
var ErrNoTail = errors.New("the pipeline is not running here")

// tails are those that run in a process.
type tails struct {
	r   *Reconciler
	log *kgo.Client
	ctx context.Context
	wg  sync.WaitGroup
	mu  struct {
		sync.Mutex
		// leases hold the end of each tail, by id; a renewal moves it.
		leases map[string]*time.Timer
	}
}

// keepServingTails is serveTails, again after trouble with the topic.
func (r *Reconciler) keepServingTails(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.serveTails(ctx)
		if ctx.Err() != nil {
			return
		}
		r.opts.Logger.Debug("requests to look at pipelines cannot be read", "error", err)
		wait := time.NewTimer(tailRenew)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
	}
}

// serveTails shows what is asked for until ctx ends.
func (r *Reconciler) serveTails(ctx context.Context) error {
	t := &tails{r: r, log: r.opts.Store.client, ctx: ctx}
	t.mu.leases = map[string]*time.Timer{}
	defer t.wg.Wait()
	from, err := r.opts.Store.tailEnd(ctx, 0)
	if err != nil {
		return err
	}
	return r.opts.Store.followFrom(ctx, TailTopic, 0, from, func(rec *kgo.Record) (bool, error) {
		var q TailRequest
		if json.Unmarshal(rec.Value, &q) == nil && q.ID != "" {
			t.take(q)
		}
		return false, nil
	})
}

// take begins a tail, or renews or ends it.
func (t *tails) take(q TailRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lease := t.mu.leases[q.ID]
	switch {
	case lease != nil && q.Done:
		lease.Reset(0)
	case lease != nil:
		lease.Reset(tailLease)
	case !q.Done && t.r.process(q.Pipeline) != nil:
		ctx, cancel := context.WithCancel(t.ctx)
		t.mu.leases[q.ID] = time.AfterFunc(tailLease, cancel)
		t.wg.Go(func() {
			defer cancel()
			t.run(ctx, q)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.mu.leases[q.ID].Stop()
			delete(t.mu.leases, q.ID)
		})
	}
}

// process is the run of a pipeline in this process, if there is one.
func (r *Reconciler) process(name string) *process {
	r.mu.Lock()
	k := r.mu.keepers[name]
	r.mu.Unlock()
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.shown
}

// run shows one tail, across the runs of its pipeline.
func (t *tails) run(ctx context.Context, q TailRequest) {
	q.Rate = min(max(q.Rate, 1), MaxTailRate)
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	var at *process
	var view Tail
	defer func() {
		if view != nil {
			view.Close()
		}
	}()
	budget := 0.0
	for {
		if p := t.r.process(q.Pipeline); p != at {
			if view != nil {
				view.Close()
			}
			at, view = p, nil
		}
		if view == nil && at != nil {
			v, err := at.tail(q)
			if err == nil {
				view = v
			} else if !errors.Is(err, ErrNoTail) {
				t.send(TailSample{ID: q.ID, Worker: t.r.opts.Worker, Error: err.Error()})
				return
			}
		}
		if view != nil {
			budget = min(budget+float64(q.Rate)*tailEvery.Seconds(), float64(q.Rate))
			sample := view.Next(int(budget))
			budget -= float64(len(sample.Records))
			sample.ID, sample.Worker = q.ID, t.r.opts.Worker
			t.send(sample)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *process) tail(q TailRequest) (Tail, error) {
	if t, ok := p.instance.(Tailer); ok {
		return t.Tail(q)
	}
	return nil, ErrNoTail
}

// send writes a sample. One that cannot be written is gone: there is always a next one.
func (t *tails) send(s TailSample) {
	data, err := json.Marshal(s)
	if err != nil {
		return // a struct of texts and numbers always encodes
	}
	t.log.TryProduce(t.ctx, &kgo.Record{Topic: TailTopic, Partition: 1, Key: []byte(s.ID),
		Value: data}, nil)
}

// Tail asks the workers to show records, and calls fn with each sample until it says that it is
// enough, or ctx ends.
func (s *Store) Tail(
	ctx context.Context, q TailRequest, fn func(TailSample) (enough bool, err error),
) error {
	q.ID = uuid.NewString()
	from, err := s.tailEnd(ctx, 1)
	if err != nil {
		return err
	}
	asking, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.keepAsking(asking, q) })
	defer wg.Wait()
	defer stop()
	return s.followFrom(ctx, TailTopic, 1, from, func(rec *kgo.Record) (bool, error) {
		var sample TailSample
		if string(rec.Key) != q.ID || json.Unmarshal(rec.Value, &sample) != nil {
			return false, nil
		}
		return fn(sample)
	})
}

// keepAsking renews a request until ctx ends, then takes it back.
func (s *Store) keepAsking(ctx context.Context, q TailRequest) {
	tick := time.NewTicker(tailRenew)
	defer tick.Stop()
	for {
		// One that is lost is repeated soon; trouble that stays is seen by whoever reads the samples.
		_ = s.produce(ctx, TailTopic, q.Pipeline, q)
		select {
		case <-tick.C:
		case <-ctx.Done():
			q.Done = true
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailRenew)
			defer cancel()
			_ = s.produce(last, TailTopic, q.Pipeline, q)
			return
		}
	}
}

// tailEnd is where a partition of the tail topic ends.
func (s *Store) tailEnd(ctx context.Context, partition int32) (int64, error) {
	ends, err := kadm.NewClient(s.client).ListEndOffsets(ctx, TailTopic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("list offsets of %s: %w", TailTopic, err)
	}
	end, ok := ends.Lookup(TailTopic, partition)
	if !ok {
		return 0, fmt.Errorf("topic %s has no partition %d: delete it, it is made again", TailTopic,
			partition)
	}
	return end.Offset, nil
}
