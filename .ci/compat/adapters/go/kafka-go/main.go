// Adapter of segmentio/kafka-go: Writer, Reader and ConsumerGroup for records, Client for administration.
package main

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/segmentio/kafka-go"

	. "millstream.test/compat/adapter"
)

type client struct {
	brokers   []string
	addr      net.Addr
	admin     *kafka.Client
	codecs    map[string]kafka.Compression // of each producer
	writers   map[[2]any]*kafka.Writer     // by producer and partition
	consumers map[string]*consumer
}

type consumer struct {
	queue      *Queue
	topic      string
	group      *kafka.ConsumerGroup
	generation chan *kafka.Generation // the current one, of capacity 1
	readers    map[int]*kafka.Reader
	stop       context.CancelFunc
}

func main() {
	c := &client{
		brokers:   []string{os.Args[1]},
		addr:      kafka.TCP(os.Args[1]),
		codecs:    map[string]kafka.Compression{},
		writers:   map[[2]any]*kafka.Writer{},
		consumers: map[string]*consumer{},
	}
	c.admin = &kafka.Client{Addr: c.addr, Timeout: 20 * time.Second}
	Serve(map[string]func(Request) (Any, error){
		"hello": c.hello, "producer": c.producer, "send": c.send,
		"consumer": c.consumer, "assign": c.assign, "poll": c.poll, "commit": c.commit, "seek": c.seek,
		"offset_for_time": c.offsetForTime, "bounds": c.bounds, "close": c.close,
		"create_topic": c.createTopic, "delete_topic": c.deleteTopic, "list_topics": c.listTopics,
		"describe_topic": c.describeTopic, "add_partitions": c.addPartitions,
		"get_config": c.getConfig, "set_config": c.setConfig,
		"list_groups": c.listGroups, "describe_group": c.describeGroup, "delete_group": c.deleteGroup,
		"set_group_offsets": c.setGroupOffsets, "group_offsets": c.groupOffsets,
		"delete_group_offsets": c.deleteGroupOffsets,
	})
}

func (c *client) hello(Request) (Any, error) {
	transactions := "a Writer has no transactions"
	return Any{
		"version": Version("github.com/segmentio/kafka-go"),
		"lacks": map[string]string{
			"idempotent": "a Writer has no producer id", "static": "no group.instance.id",
			"cooperative": "eager assignors only", "kip848": "classic protocol only",
			"empty header": "empty is null",
			"txn":          transactions, "txn_etl": transactions, "fence": transactions,
		},
	}, nil
}

func (c *client) producer(r Request) (Any, error) {
	c.codecs[r.ID] = map[string]kafka.Compression{
		"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}[r.Codec]
	return nil, nil
}

// writer is one for each partition, since a Writer chooses the partition itself.
func (c *client) writer(id string, partition int) *kafka.Writer {
	key := [2]any{id, partition}
	if c.writers[key] == nil {
		c.writers[key] = &kafka.Writer{
			Addr: c.addr, RequiredAcks: kafka.RequireAll, Compression: c.codecs[id],
			Balancer:  kafka.BalancerFunc(func(kafka.Message, ...int) int { return partition }),
			BatchSize: 100, BatchBytes: 2_000_000, BatchTimeout: 5 * time.Millisecond,
		}
	}
	return c.writers[key]
}

func (c *client) send(r Request) (Any, error) {
	ctx, cancel := Timeout()
	defer cancel()
	messages := make([]kafka.Message, len(r.Records))
	for i, from := range r.Records {
		messages[i] = kafka.Message{Topic: r.Topic, Key: from.Key, Value: from.Value}
		for _, h := range from.Headers {
			messages[i].Headers = append(messages[i].Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
		if from.Timestamp != nil {
			messages[i].Time = time.UnixMilli(*from.Timestamp)
		}
	}
	err := c.writer(r.ID, int(r.Partition)).WriteMessages(ctx, messages...)
	var each kafka.WriteErrors
	if errors.As(err, &each) {
		return nil, errors.Join(each...)
	}
	return nil, err
}

func isolation(committed bool) kafka.IsolationLevel {
	if committed {
		return kafka.ReadCommitted
	}
	return kafka.ReadUncommitted
}

func (c *client) consumer(r Request) (Any, error) {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: r.Group, Brokers: c.brokers, Topics: []string{r.Topic}, StartOffset: kafka.FirstOffset,
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: 500 * time.Millisecond, SessionTimeout: r.SessionTimeout(), RebalanceTimeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	held := &consumer{
		queue: &Queue{}, topic: r.Topic, group: group, stop: stop, generation: make(chan *kafka.Generation, 1),
	}
	c.consumers[r.ID] = held
	go func() {
		for ctx.Err() == nil {
			generation, err := group.Next(ctx)
			if err != nil {
				println("next generation:", err.Error())
				continue
			}
			held.begin(c, generation, isolation(r.Committed))
		}
	}()
	return nil, nil
}

// begin reads the partitions of a generation until it ends.
func (h *consumer) begin(c *client, generation *kafka.Generation, level kafka.IsolationLevel) {
	var partitions []int32
	for _, p := range generation.Assignments[h.topic] {
		partitions = append(partitions, int32(p.ID))
	}
	h.queue.Assigned(partitions)
	h.generation <- generation
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		<-h.generation
		h.queue.Revoked(partitions)
	})
	for _, p := range generation.Assignments[h.topic] {
		generation.Start(func(ctx context.Context) {
			reader := h.reader(c, p.ID, level)
			defer func() { _ = reader.Close() }()
			if err := reader.SetOffset(p.Offset); err == nil {
				h.read(ctx, reader)
			}
		})
	}
}

func (h *consumer) reader(c *client, partition int, level kafka.IsolationLevel) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.brokers, Topic: h.topic, Partition: partition, IsolationLevel: level,
		MinBytes: 1, MaxBytes: 10_000_000, MaxWait: 200 * time.Millisecond,
	})
}

func (h *consumer) read(ctx context.Context, reader *kafka.Reader) {
	for {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return
		}
		t := m.Time.UnixMilli()
		to := Record{Key: m.Key, Value: m.Value, Timestamp: &t, Partition: int32(m.Partition), Offset: m.Offset}
		for _, header := range m.Headers {
			to.Headers = append(to.Headers, Header{Name: header.Key, Value: header.Value})
		}
		if ctx.Err() == nil {
			h.queue.Push(to)
		}
	}
}

func (c *client) assign(r Request) (Any, error) {
	ctx, stop := context.WithCancel(context.Background())
	held := &consumer{queue: &Queue{}, topic: r.Topic, readers: map[int]*kafka.Reader{}, stop: stop}
	c.consumers[r.ID] = held
	for _, p := range r.Partitions {
		reader := held.reader(c, int(p), isolation(r.Committed))
		held.readers[int(p)] = reader
		if err := reader.SetOffset(kafka.FirstOffset); err != nil {
			return nil, err
		}
		go held.read(ctx, reader)
	}
	return nil, nil
}

func (c *client) poll(r Request) (Any, error) { return c.consumers[r.ID].queue.Poll(r.Millis), nil }

func (c *client) commit(r Request) (Any, error) {
	held := c.consumers[r.ID]
	select {
	case generation := <-held.generation:
		offsets := map[int]int64{}
		for p, o := range held.queue.Positions() {
			offsets[int(p)] = o
		}
		err := generation.CommitOffsets(map[string]map[int]int64{held.topic: offsets})
		held.generation <- generation
		return nil, err
	case <-time.After(20 * time.Second):
		return nil, errors.New("no generation to commit in")
	}
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
	if err := held.readers[int(r.Partition)].SetOffset(int64(to)); err != nil {
		return nil, err
	}
	time.Sleep(500 * time.Millisecond) // what it had fetched before still comes
	held.queue.DropBelow(int64(to))
	return nil, nil
}

func (c *client) close(r Request) (Any, error) {
	held := c.consumers[r.ID]
	if held == nil {
		for key, w := range c.writers {
			if key[0] == r.ID {
				if err := w.Close(); err != nil {
					return nil, err
				}
				delete(c.writers, key)
			}
		}
		return nil, nil
	}
	delete(c.consumers, r.ID)
	held.stop()
	if held.group != nil {
		return nil, held.group.Close()
	}
	for _, reader := range held.readers {
		if err := reader.Close(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
