package txn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// Coordinator answers for the transactional ids whose shards this node leads. Its methods wait for
// their answer, for no longer than ctx; what is abandoned so may still happen. Failures are codes
// in the answers. Make it with New, end it with Close.
type Coordinator struct {
	opts       Options
	runtime    *coordinator.Runtime
	partitions atomic.Int32
	markers    markerQueue
	ids        *producerIDs
	count      Counters
	background sync.WaitGroup // reports of finished transactions
	// complaint is the last error that was logged of getting producer ids: clients try again.
	complaint atomic.Value

	mu struct {
		sync.Mutex
		closed  bool
		tenures map[int32]*tenure // the last of each shard
	}
}

// New makes a coordinator that leads no shard yet.
func New(opts Options) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("create transaction coordinator: %w", err)
	}
	c := &Coordinator{opts: opts, ids: newProducerIDs(opts.AllocateProducerIDs)}
	c.partitions.Store(opts.Partitions)
	c.mu.tenures = make(map[int32]*tenure)
	c.markers = markerQueue{
		sender: opts.Markers, now: opts.Now, logger: opts.Logger, done: c.markersDone,
	}
	c.runtime = coordinator.New(coordinator.Options{
		Log: opts.Log, NewMachine: c.newMachine, Now: opts.Now, Logger: opts.Logger,
	})
	return c, nil
}

// newMachine begins a tenure.
func (c *Coordinator) newMachine(shard int32) coordinator.Machine {
	t := &tenure{shard: shard, coordinatorEpoch: c.opts.Log.LeaderEpoch(shard)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.mu.tenures[shard]; old != nil {
		old.cancel()
	}
	c.mu.tenures[shard] = t
	if c.mu.closed {
		t.cancel()
	}
	m := newMachine(&c.opts, func(job markerJob) { c.markers.send(t, job) })
	m.count, m.share = &c.count, c.count.ids.Begin(shard)
	return m
}

// endTenure ends what a shard's last machine began.
func (c *Coordinator) endTenure(shard int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.mu.tenures[shard]; t != nil {
		t.cancel()
		delete(c.mu.tenures, shard)
	}
}

// Close ends the coordinator; whatever waits is answered with NOT_COORDINATOR.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.mu.closed = true
	for _, t := range c.mu.tenures {
		t.cancel()
	}
	c.mu.Unlock()
	c.runtime.Close()
	c.markers.close()
	c.background.Wait()
}

// UpdateLeadership says how many partitions TopicName has (0 if it does not exist yet) and which of
// them this node leads, with the leader epoch of each. Shards that are new, or have a new epoch,
// load in the background; those that are missing end. Call it whenever the metadata changes.
func (c *Coordinator) UpdateLeadership(partitions int32, leading map[int32]int32) {
	if partitions > 0 {
		c.partitions.Store(partitions)
	}
	for _, n := range c.runtime.LeadOnly(leading) {
		c.endTenure(n)
	}
}

// PartitionFor is the partition of TopicName, and so the shard, that a transactional id belongs to.
func (c *Coordinator) PartitionFor(id string) int32 {
	return coordinator.PartitionFor(id, c.partitions.Load())
}

// markersDone records that a transaction is complete, until that is durable or its tenure over.
func (c *Coordinator) markersDone(d *decided) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return
	}
	c.background.Go(func() {
		in := markersWritten{id: d.id, producer: d.producer}
		pause := firstMarkerRetry
		for d.tenure.ctx.Err() == nil {
			resp, code := call[ErrorCode](d.tenure.ctx, c, d.tenure.shard, in)
			if code == coordinator.CodeNone {
				code = resp
			}
			if code == coordinator.CodeNone {
				return
			}
			select {
			case <-time.After(pause):
			case <-d.tenure.ctx.Done():
			}
			pause = min(2*pause, lastMarkerRetry)
		}
	})
}

// call sends in to a shard and waits for an answer of type T.
func call[T any](ctx context.Context, c *Coordinator, shard int32, in any) (T, ErrorCode) {
	out, code := c.runtime.Ask(ctx, shard, in)
	if code != coordinator.CodeNone {
		var none T
		return none, code
	}
	return out.(T), code
}

// InitProducerID handles InitProducerId with a transactional id.
func (c *Coordinator) InitProducerID(ctx context.Context, req InitRequest) InitResponse {
	if code := c.opts.checkInit(&req); code != coordinator.CodeNone {
		return InitResponse{Code: code, Producer: noProducer}
	}
	out, code := c.withProducerID(ctx, req.TransactionalID, func(id int64) any {
		again := req
		again.newProducerID = id
		return &again
	})
	if code != coordinator.CodeNone {
		return InitResponse{Code: code, Producer: noProducer}
	}
	return out.(InitResponse)
}

var noProducer = Producer{ID: NoProducerID, Epoch: NoProducerEpoch}

// withProducerID asks without a new producer id, and once more with one if the machine wants that:
// most requests need none.
func (c *Coordinator) withProducerID(
	ctx context.Context, id string, in func(newProducerID int64) any,
) (any, ErrorCode) {
	shard := c.PartitionFor(id)
	out, code := c.runtime.Ask(ctx, shard, in(NoProducerID))
	if _, ok := out.(needProducerID); !ok {
		return out, code
	}
	producer, code := c.NewProducer(ctx)
	if code != coordinator.CodeNone {
		return nil, code
	}
	return c.runtime.Ask(ctx, shard, in(producer.ID))
}

// NewProducer handles InitProducerId without a transactional id: nobody had the producer before.
func (c *Coordinator) NewProducer(ctx context.Context) (Producer, ErrorCode) {
	id, err := c.ids.next(ctx)
	if err == nil {
		return Producer{ID: id}, coordinator.CodeNone
	}
	if c.complaint.Swap(err.Error()) != err.Error() {
		c.opts.Logger.Error("cannot give out producer ids", "error", err)
	}
	// As Kafka while it waits for a block: every client tries that again, after a while.
	return noProducer, coordinator.CodeCoordinatorLoadInProgress
}

// AddPartitions handles AddPartitionsToTxn: it adds, or only verifies.
func (c *Coordinator) AddPartitions(ctx context.Context, req AddRequest) AddResponse {
	if req.TransactionalID == "" {
		return AddResponse{Code: coordinator.CodeInvalidRequest}
	}
	resp, code := call[AddResponse](ctx, c, c.PartitionFor(req.TransactionalID), &req)
	if code != coordinator.CodeNone {
		return AddResponse{Code: code}
	}
	return resp
}

// EndTxn handles EndTxn.
func (c *Coordinator) EndTxn(ctx context.Context, req EndRequest) EndResponse {
	if req.TransactionalID == "" {
		return EndResponse{Code: coordinator.CodeInvalidRequest, Producer: noProducer}
	}
	out, code := c.withProducerID(ctx, req.TransactionalID, func(id int64) any {
		again := req
		again.newProducerID = id
		return &again
	})
	if code != coordinator.CodeNone {
		return EndResponse{Code: code, Producer: noProducer}
	}
	return out.(EndResponse)
}

// Describe handles DescribeTransactions for one id.
func (c *Coordinator) Describe(ctx context.Context, id string) Description {
	code := coordinator.CodeInvalidRequest
	var d Description
	if id != "" {
		d, code = call[Description](ctx, c, c.PartitionFor(id), describeInput{id})
	}
	if code != coordinator.CodeNone {
		return Description{Code: code, TransactionalID: id, Producer: noProducer, StartMS: -1}
	}
	return d
}

// List handles ListTransactions. A shard that is still loading makes the whole list fail with its
// code, as a list that silently lacks transactions would mislead.
func (c *Coordinator) List(ctx context.Context, req ListRequest) ListResponse {
	var all ListResponse
	for shard := range c.runtime.Leading() {
		resp, code := call[ListResponse](ctx, c, shard, listInput{req})
		if code == coordinator.CodeNotCoordinator {
			continue // resigned meanwhile: its transactions are listed elsewhere
		}
		if code != coordinator.CodeNone {
			return ListResponse{Code: code}
		}
		all.Transactions = append(all.Transactions, resp.Transactions...)
	}
	sortListed(all.Transactions)
	return all
}
