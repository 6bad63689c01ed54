// Adapter of sarama.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/IBM/sarama"

	. "millstream.test/compat/adapter"
)

type client struct {
	brokers   []string
	admin     sarama.ClusterAdmin
	plain     sarama.Client
	pending   map[string]*sarama.Config // transactional producers ask for their id when they are made: in init
	producers map[string]sarama.SyncProducer
	consumers map[string]*consumer
}

type consumer struct {
	queue     *Queue
	topic     string
	group     sarama.ConsumerGroup
	stop      context.CancelFunc
	session   chan sarama.ConsumerGroupSession // the current one, of capacity 1
	direct    sarama.Consumer
	positions map[int32]sarama.PartitionConsumer
}

func main() {
	c := &client{
		brokers:   []string{os.Args[1]},
		pending:   map[string]*sarama.Config{},
		producers: map[string]sarama.SyncProducer{},
		consumers: map[string]*consumer{},
	}
	Serve(map[string]func(Request) (Any, error){
		"hello": c.hello, "producer": c.producer, "send": c.send, "init": c.init,
		"begin_transaction":  func(r Request) (Any, error) { return nil, c.producers[r.ID].BeginTxn() },
		"commit_transaction": func(r Request) (Any, error) { return nil, c.producers[r.ID].CommitTxn() },
		"abort_transaction":  func(r Request) (Any, error) { return nil, c.producers[r.ID].AbortTxn() },
		"send_offsets":       c.sendOffsets,
		"consumer":           c.consumer, "assign": c.assign, "poll": c.poll, "commit": c.commit, "seek": c.seek,
		"offset_for_time": c.offsetForTime, "bounds": c.bounds, "close": c.close,
		"create_topic": c.createTopic, "delete_topic": c.deleteTopic, "list_topics": c.listTopics,
		"describe_topic": c.describeTopic, "add_partitions": c.addPartitions,
		"get_config": c.getConfig, "set_config": c.setConfig,
		"list_groups": c.listGroups, "describe_group": c.describeGroup, "delete_group": c.deleteGroup,
		"set_group_offsets": c.setGroupOffsets, "group_offsets": c.groupOffsets,
		"delete_group_offsets": c.deleteGroupOffsets, "delete_records": c.deleteRecords,
	})
}

func (c *client) hello(Request) (Any, error) {
	return Any{
		"version": Version("github.com/IBM/sarama"),
		"lacks":   map[string]string{"kip848": "classic protocol only"},
	}, nil
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.MaxMessageBytes = 2_000_000
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	return config
}

func (c *client) producer(r Request) (Any, error) {
	config := config()
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[r.Codec]
	if r.Idempotent || r.TransactionalID != "" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
		config.Producer.Transaction.ID = r.TransactionalID
	}
	if r.TransactionalID != "" {
		c.pending[r.ID] = config
		return nil, nil
	}
	p, err := sarama.NewSyncProducer(c.brokers, config)
	c.producers[r.ID] = p
	return nil, err
}

func (c *client) init(r Request) (Any, error) {
	p, err := sarama.NewSyncProducer(c.brokers, c.pending[r.ID])
	c.producers[r.ID] = p
	return nil, err
}

func (c *client) send(r Request) (Any, error) {
	messages := make([]*sarama.ProducerMessage, len(r.Records))
	for i, from := range r.Records {
		m := &sarama.ProducerMessage{Topic: r.Topic, Partition: r.Partition}
		if from.Key != nil {
			m.Key = sarama.ByteEncoder(from.Key)
		}
		if from.Value != nil {
			m.Value = sarama.ByteEncoder(from.Value)
		}
		for _, h := range from.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
		if from.Timestamp != nil {
			m.Timestamp = time.UnixMilli(*from.Timestamp)
		}
		messages[i] = m
	}
	err := c.producers[r.ID].SendMessages(messages)
	var each sarama.ProducerErrors
	if errors.As(err, &each) {
		return nil, each[0].Err
	}
	return nil, err
}

func (c *client) sendOffsets(r Request) (Any, error) {
	var offsets []*sarama.PartitionOffsetMetadata
	for p, o := range r.Offsets {
		offsets = append(offsets, &sarama.PartitionOffsetMetadata{Partition: p, Offset: o})
	}
	return nil, c.producers[r.ID].AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{r.Topic: offsets}, r.Group)
}

func (c *client) consumer(r Request) (Any, error) {
	config := config()
	config.Consumer.Group.Session.Timeout = r.SessionTimeout()
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.InstanceId = r.Instance
	strategy := sarama.NewBalanceStrategyRange()
	if r.Assignor != "" {
		strategy = sarama.NewBalanceStrategyCooperativeSticky()
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	if r.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	group, err := sarama.NewConsumerGroup(c.brokers, r.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	held := &consumer{
		queue: &Queue{}, topic: r.Topic, group: group, stop: stop, session: make(chan sarama.ConsumerGroupSession, 1),
	}
	c.consumers[r.ID] = held
	go func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{r.Topic}, held); err != nil && ctx.Err() == nil {
				println("consume:", err.Error())
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return nil, nil
}

// The handler of a consumer group: each claim pushes its records.

func (h *consumer) Setup(s sarama.ConsumerGroupSession) error {
	h.session <- s
	return nil
}

func (h *consumer) Cleanup(sarama.ConsumerGroupSession) error {
	<-h.session
	return nil
}

func (h *consumer) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	h.queue.Assigned([]int32{claim.Partition()})
	defer h.queue.Revoked([]int32{claim.Partition()})
	for {
		select {
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			h.queue.Push(record(m))
		case <-s.Context().Done():
			return nil
		}
	}
}

func record(m *sarama.ConsumerMessage) Record {
	t := m.Timestamp.UnixMilli()
	r := Record{Key: m.Key, Value: m.Value, Timestamp: &t, Partition: m.Partition, Offset: m.Offset}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, Header{Name: string(h.Key), Value: h.Value})
	}
	return r
}

func (c *client) assign(r Request) (Any, error) {
	config := config()
	if r.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	direct, err := sarama.NewConsumer(c.brokers, config)
	if err != nil {
		return nil, err
	}
	held := &consumer{queue: &Queue{}, topic: r.Topic, direct: direct, positions: map[int32]sarama.PartitionConsumer{}}
	c.consumers[r.ID] = held
	for _, p := range r.Partitions {
		if err := held.from(p, sarama.OffsetOldest); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// from reads a partition from an offset on.
func (h *consumer) from(partition int32, offset int64) error {
	if old := h.positions[partition]; old != nil {
		if err := old.Close(); err != nil {
			return err
		}
		h.queue.Clear()
	}
	p, err := h.direct.ConsumePartition(h.topic, partition, offset)
	if err != nil {
		return err
	}
	h.positions[partition] = p
	go func() {
		for m := range p.Messages() {
			h.queue.Push(record(m))
		}
	}()
	return nil
}

func (c *client) poll(r Request) (Any, error) { return c.consumers[r.ID].queue.Poll(r.Millis), nil }

func (c *client) commit(r Request) (Any, error) {
	held := c.consumers[r.ID]
	select {
	case s := <-held.session:
		for p, o := range held.queue.Positions() {
			s.MarkOffset(held.topic, p, o, "")
		}
		s.Commit()
		held.session <- s
		return nil, nil
	case <-time.After(20 * time.Second):
		return nil, errors.New("no session to commit in")
	}
}

func (c *client) seek(r Request) (Any, error) {
	to := sarama.OffsetOldest
	switch at := r.To.(type) {
	case float64:
		to = int64(at)
	case string:
		if at == "end" {
			to = sarama.OffsetNewest
		}
	}
	return nil, c.consumers[r.ID].from(r.Partition, to)
}

func (c *client) close(r Request) (Any, error) {
	held := c.consumers[r.ID]
	switch {
	case held == nil:
		return nil, c.producers[r.ID].Close()
	case held.group != nil:
		delete(c.consumers, r.ID)
		held.stop()
		return nil, held.group.Close()
	}
	delete(c.consumers, r.ID)
	for _, p := range held.positions {
		if err := p.Close(); err != nil {
			return nil, err
		}
	}
	return nil, held.direct.Close()
}
