package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/record"
)

// kafkaConsumer reads without a group. It asks for batches itself, through the connections of a
// kgo client. They wait as they came, compressed; Poll makes records of those it hands out.
type kafkaConsumer struct {
	client  *kgo.Client
	opts    Options
	waiters *waiters
	closing context.Context
	close   context.CancelFunc
	// kick wakes the manager: a partition may have to be asked for. ready wakes Poll. Both hold at
	// most one token.
	kick, ready chan struct{}
	running     sync.WaitGroup

	mu struct {
		sync.Mutex
		at map[TopicPartition]*reading
		// answers wait for Poll, in the order they came.
		answers []*answer
		// busy are the brokers that are being asked.
		busy map[int32]bool
		// looking: the leaders of partitions are being asked for.
		looking bool
	}
	// iterator is used by Poll only.
	iterator record.Iterator
	spare    spareMemory
}

var _ Consumer = (*kafkaConsumer)(nil)

// reading is one assigned partition, from one Assign on.
type reading struct {
	tp TopicPartition
	// at is the next offset to hand out, next the next one to ask for.
	at, next int64
	// id is the topic's, as far as the broker has ids; leader is -1 when it has to be looked up.
	id     [16]byte
	leader int32
	// bytes wait in answers. maxBytes is what the next answer may have.
	bytes    int
	maxBytes int32
	// asked: a fetch is on its way. failed: an answer tells why the reading has ended.
	asked, failed, paused bool
	// tries failed since the last answer; the next one is not before retry.
	tries int
	retry time.Time
	// silent is since when it has been asked for without an answer, zero when there was one; why is
	// the last failure since then.
	silent time.Time
	why    error
}

// Consumer implements Cluster.
func (k *Kafka) Consumer() (Consumer, error) {
	client, err := kgo.NewClient(k.kgo()...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka consumer: %w", err)
	}
	c := &kafkaConsumer{client: client, opts: k.opts, waiters: &k.waiters,
		kick: make(chan struct{}, 1), ready: make(chan struct{}, 1)}
	c.closing, c.close = context.WithCancel(context.Background())
	c.mu.at, c.mu.busy = map[TopicPartition]*reading{}, map[int32]bool{}
	c.running.Go(c.manage)
	c.waiters.add(c)
	return c, nil
}

func (c *kafkaConsumer) Assign(tp TopicPartition, offset int64) {
	c.mu.Lock()
	r := &reading{tp: tp, at: offset, next: offset, leader: -1, maxBytes: c.partitionBytes()}
	if old := c.mu.at[tp]; old != nil {
		r.paused = old.paused
	}
	c.mu.at[tp] = r
	c.forget()
	c.mu.Unlock()
	token(c.kick)
}

// partitionBytes is what one partition may give in one answer: a few of them have room in it.
func (c *kafkaConsumer) partitionBytes() int32 { return max(1, min(c.opts.FetchBytes/2, 512<<10)) }

func (c *kafkaConsumer) Unassign(tps ...TopicPartition) {
	c.mu.Lock()
	for _, tp := range tps {
		delete(c.mu.at, tp)
	}
	c.forget()
	c.mu.Unlock()
}

// forget drops answers of readings that have ended. mu is held.
func (c *kafkaConsumer) forget() {
	kept := c.mu.answers[:0]
	for _, a := range c.mu.answers {
		if c.mu.at[a.of.tp] == a.of {
			kept = append(kept, a)
		}
	}
	clear(c.mu.answers[len(kept):])
	c.mu.answers = kept
}

func (c *kafkaConsumer) Pause(tps ...TopicPartition) { c.setPaused(tps, true) }

func (c *kafkaConsumer) Resume(tps ...TopicPartition) { c.setPaused(tps, false) }

func (c *kafkaConsumer) setPaused(tps []TopicPartition, paused bool) {
	c.mu.Lock()
	for _, tp := range tps {
		if r := c.mu.at[tp]; r != nil {
			r.paused = paused
			if paused {
				r.answered()
			}
		}
	}
	c.mu.Unlock()
	token(c.kick)
	token(c.ready)
}

func (c *kafkaConsumer) Close() {
	c.waiters.remove(c)
	c.close()
	c.client.Close()
	c.running.Wait()
}

func (c *kafkaConsumer) Poll(ctx context.Context) ([]Fetched, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c.closing.Err() != nil {
			return nil, fmt.Errorf("poll: %w", ErrClosed)
		}
		a := c.take()
		if a == nil {
			select {
			case <-ctx.Done():
			case <-c.closing.Done():
			case <-c.ready:
			}
			continue
		}
		if a.err != nil {
			return nil, fmt.Errorf("read %s at %d: %w", a.of.tp, a.of.at, domain(a.err))
		}
		mem := c.spare.take()
		run, err := a.decode(&c.iterator, mem)
		if err != nil {
			return nil, fmt.Errorf("read %s at %d: %w", a.of.tp, a.of.at, err)
		}
		if c.handOut(a, &run) {
			run.Free = func() { c.spare.put(mem) }
			return []Fetched{run}, nil
		}
		c.spare.put(mem)
	}
}

// take returns the first answer that may be handed out, nil if there is none. It stays where it is.
func (c *kafkaConsumer) take() *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.mu.answers {
		if !a.of.paused {
			return a
		}
	}
	return nil
}

// handOut moves the position over a run made of an answer; false when the partition was taken away,
// moved or paused meanwhile, or there is nothing in it.
func (c *kafkaConsumer) handOut(a *answer, run *Fetched) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := a.of
	if c.mu.at[r.tp] != r {
		return false
	}
	r.bytes -= a.taken
	a.taken = 0
	if len(a.batches) == 0 {
		for i, other := range c.mu.answers {
			if other == a {
				c.mu.answers = append(c.mu.answers[:i], c.mu.answers[i+1:]...)
				break
			}
		}
	}
	if r.bytes < aheadBytes {
		token(c.kick)
	}
	run.From = r.at
	if run.Next <= r.at {
		return false
	}
	r.at = run.Next
	return true
}
