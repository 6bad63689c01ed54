// Adapter of franz-go: kgo for records, kadm for administration.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	. "millstream.test/compat/adapter"
)

type client struct {
	bootstrap string
	admin     *kadm.Client
	producers map[string]*kgo.Client
	consumers map[string]*consumer
	// A transactional producer that sends offsets is one client with its consumer, as a session: made with the latter.
	sessions map[string]*session
}

type consumer struct {
	cl      *kgo.Client
	queue   *Queue
	topic   string
	maxPoll int
	polled  []*kgo.Record
}

type session struct {
	transactionalID string
	current         *kgo.GroupTransactSession
}

func main() {
	c := &client{
		bootstrap: os.Args[1],
		producers: map[string]*kgo.Client{},
		consumers: map[string]*consumer{},
		sessions:  map[string]*session{},
	}
	Serve(map[string]func(Request) (Any, error){
		"hello":    func(Request) (Any, error) { return Any{"version": Version("github.com/twmb/franz-go")}, nil },
		"producer": c.producer, "send": c.send, "init": c.init,
		"begin_transaction": c.begin, "commit_transaction": c.end(kgo.TryCommit), "abort_transaction": c.end(kgo.TryAbort),
		"send_offsets": func(Request) (Any, error) { return nil, nil }, // a session does it when it ends
		"consumer":     c.consumer, "assign": c.assign, "poll": c.poll, "commit": c.commit, "seek": c.seek,
		"offset_for_time": c.offsetForTime, "bounds": c.bounds, "close": c.close,
		"create_topic": c.createTopic, "delete_topic": c.deleteTopic, "list_topics": c.listTopics,
		"describe_topic": c.describeTopic, "add_partitions": c.addPartitions,
		"get_config": c.getConfig, "set_config": c.setConfig,
		"list_groups": c.listGroups, "describe_group": c.describeGroup, "delete_group": c.deleteGroup,
		"set_group_offsets": c.setGroupOffsets, "group_offsets": c.groupOffsets,
		"delete_group_offsets": c.deleteGroupOffsets, "delete_records": c.deleteRecords,
	})
}

func (c *client) options(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(c.bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(2_000_000),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}, more...)
}

func (c *client) producer(r Request) (Any, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := c.options(kgo.ProducerBatchCompression(codecs[r.Codec]))
	if r.TransactionalID != "" {
		options = append(options, kgo.TransactionalID(r.TransactionalID))
		c.sessions[r.ID] = &session{transactionalID: r.TransactionalID}
	} else if !r.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(options...)
	c.producers[r.ID] = cl
	return nil, err
}

// produceWith is the session of a producer if it has one, else the producer itself.
func (c *client) produceWith(id string) *kgo.Client {
	if s := c.sessions[id]; s != nil && s.current != nil {
		return s.current.Client()
	}
	return c.producers[id]
}

func (c *client) send(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	records := make([]*kgo.Record, len(r.Records))
	for i, from := range r.Records {
		records[i] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: from.Key, Value: from.Value}
		for _, h := range from.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		if from.Timestamp != nil {
			records[i].Timestamp = time.UnixMilli(*from.Timestamp)
		}
	}
	return nil, c.produceWith(r.ID).ProduceSync(ctx, records...).FirstErr()
}

func (c *client) init(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	_, _, err := c.producers[r.ID].ProducerID(ctx)
	return nil, err
}

func (c *client) begin(r Request) (Any, error) {
	if s := c.sessions[r.ID]; s.current != nil {
		return nil, s.current.Begin()
	}
	return nil, c.producers[r.ID].BeginTransaction()
}

func (c *client) end(try kgo.TransactionEndTry) func(Request) (Any, error) {
	return func(r Request) (Any, error) {
		ctx, cancel := Timeout()
		defer cancel()
		if s := c.sessions[r.ID]; s.current != nil {
			committed, err := s.current.End(ctx, try)
			if err == nil && committed != bool(try) {
				err = errors.New("the session aborted")
			}
			return nil, err
		}
		if err := c.producers[r.ID].Flush(ctx); err != nil {
			return nil, err
		}
		return nil, c.producers[r.ID].EndTransaction(ctx, try)
	}
}

func (c *client) consumerOptions(r Request, more ...kgo.Opt) []kgo.Opt {
	isolation := kgo.ReadUncommitted()
	if r.Committed {
		isolation = kgo.ReadCommitted()
	}
	reset := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	return c.options(append([]kgo.Opt{kgo.FetchIsolationLevel(isolation), reset}, more...)...)
}

func (c *client) consumer(r Request) (Any, error) {
	q := &Queue{}
	told := func(tell func([]int32)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) { tell(topics[r.Topic]) }
	}
	options := c.consumerOptions(r,
		kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(r.Topic),
		kgo.SessionTimeout(r.SessionTimeout()), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(told(q.Assigned)), kgo.OnPartitionsRevoked(told(q.Revoked)),
		kgo.OnPartitionsLost(told(q.Revoked)),
	)
	switch {
	case r.Protocol != "":
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	case r.Assignor != "":
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	if r.Instance != "" {
		options = append(options, kgo.InstanceID(r.Instance))
	}
	held := &consumer{queue: q, topic: r.Topic, maxPoll: max(r.MaxPoll, 0)}
	c.consumers[r.ID] = held
	for _, s := range c.sessions {
		made, err := kgo.NewGroupTransactSession(append(options, kgo.TransactionalID(s.transactionalID))...)
		if err != nil {
			return nil, err
		}
		s.current, held.cl = made, made.Client()
		return nil, nil
	}
	cl, err := kgo.NewClient(append(options, kgo.DisableAutoCommit())...)
	held.cl = cl
	return nil, err
}

func (c *client) assign(r Request) (Any, error) {
	partitions := map[int32]kgo.Offset{}
	for _, p := range r.Partitions {
		partitions[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(c.consumerOptions(r,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.Topic: partitions}))...)
	c.consumers[r.ID] = &consumer{cl: cl, queue: &Queue{}, topic: r.Topic}
	return nil, err
}

func (c *client) poll(r Request) (Any, error) {
	held := c.consumers[r.ID]
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Millis)*time.Millisecond)
	defer cancel()
	limit := 500
	if held.maxPoll > 0 {
		limit = held.maxPoll
	}
	fetches := held.cl.PollRecords(ctx, limit)
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	fetches.EachRecord(func(from *kgo.Record) {
		t := from.Timestamp.UnixMilli()
		to := Record{Key: from.Key, Value: from.Value, Timestamp: &t, Partition: from.Partition, Offset: from.Offset}
		for _, h := range from.Headers {
			to.Headers = append(to.Headers, Header{Name: h.Key, Value: h.Value})
		}
		held.queue.Push(to)
		held.polled = append(held.polled, from)
	})
	return held.queue.Poll(0), nil
}

func (c *client) commit(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	held := c.consumers[r.ID]
	return nil, held.cl.CommitRecords(ctx, held.polled...)
}

func (c *client) seek(r Request) (Any, error) {
	bounds, err := c.bounds(r)
	if err != nil {
		return nil, err
	}
	to, ok := r.To.(float64)
	if !ok {
		to = float64(bounds[r.To.(string)].(int64))
	}
	held := c.consumers[r.ID]
	held.queue.Clear()
	held.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.Topic: {r.Partition: {Epoch: -1, Offset: int64(to)}}})
	return nil, nil
}

func (c *client) close(r Request) (Any, error) {
	for _, s := range c.sessions {
		if held := c.consumers[r.ID]; held != nil && s.current != nil && s.current.Client() == held.cl {
			s.current.Close()
			s.current = nil
			delete(c.consumers, r.ID)
			return nil, nil
		}
	}
	if held := c.consumers[r.ID]; held != nil {
		held.cl.Close()
		delete(c.consumers, r.ID)
		return nil, nil
	}
	c.producers[r.ID].Close()
	delete(c.producers, r.ID)
	return nil, nil
}
