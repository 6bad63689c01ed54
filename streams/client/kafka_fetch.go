package client

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// aheadBytes of a partition may wait, compressed, before no more is asked for.
	aheadBytes = 256 << 10
	// shortWait is how long a broker holds a fetch that leaves out a partition that will be asked
	// for as soon as what waits of it is handed out.
	shortWait = 5 * time.Millisecond
	// unknownTries is how often a topic may be unknown to a broker, which may have just started,
	// before it counts as gone.
	unknownTries = 5
)

// manage asks for what is wanted, one fetch at a time per broker, until the consumer is closed.
func (c *kafkaConsumer) manage() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(c.ask(time.Now()))
		select {
		case <-c.closing.Done():
			return
		case <-c.kick:
		case <-timer.C:
		}
	}
}

// ask starts the fetches and look-ups that can be started, and returns when to look again.
func (c *kafkaConsumer) ask(now time.Time) time.Duration {
	again := time.Hour
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[int32][]*reading{}
	behind := map[int32]bool{} // have partitions that are not asked for and soon will be
	var unknown []*reading
	for _, r := range c.mu.at {
		switch wait := r.retry.Sub(now); {
		case r.failed || r.paused || r.asked:
		case wait > 0:
			again = min(again, wait)
		case r.leader < 0:
			unknown = append(unknown, r)
			r.ask(now)
		case r.bytes >= aheadBytes:
			behind[r.leader] = true
		default:
			wanted[r.leader] = append(wanted[r.leader], r)
		}
	}
	if len(unknown) > 0 && !c.mu.looking {
		c.mu.looking = true
		c.running.Go(func() { c.lookUp(unknown) })
	}
	for leader, list := range wanted {
		if c.mu.busy[leader] {
			continue
		}
		c.mu.busy[leader] = true
		wait := c.opts.FetchWait
		if behind[leader] {
			wait = min(wait, shortWait)
		}
		request := c.request(list, wait)
		c.running.Go(func() { c.fetch(leader, list, request) })
	}
	return again
}

// request makes the fetch of partitions. mu is held.
func (c *kafkaConsumer) request(list []*reading, wait time.Duration) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis = int32(wait.Milliseconds())
	request.MinBytes = 1
	request.MaxBytes = c.opts.FetchBytes
	request.IsolationLevel = 1 // read_committed
	request.SessionEpoch = -1  // no session: every request says all
	topics := map[string]int{}
	for _, r := range list {
		r.asked = true
		r.ask(time.Now())
		i, ok := topics[r.tp.Topic]
		if !ok {
			i = len(request.Topics)
			topics[r.tp.Topic] = i
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.TopicID = r.tp.Topic, r.id
			request.Topics = append(request.Topics, topic)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = r.tp.Partition, r.next, r.maxBytes
		request.Topics[i].Partitions = append(request.Topics[i].Partitions, p)
	}
	return request
}

// fetch asks one broker and keeps what it answers.
func (c *kafkaConsumer) fetch(leader int32, list []*reading, request *kmsg.FetchRequest) {
	response, err := c.client.Broker(int(leader)).Request(c.closing, request)
	c.mu.Lock()
	c.mu.busy[leader] = false
	for _, r := range list {
		r.asked = false
	}
	if err == nil {
		fetched := response.(*kmsg.FetchResponse)
		if err = kerr.ErrorForCode(fetched.ErrorCode); err == nil {
			c.keep(list, fetched)
		}
	}
	if err != nil {
		for _, r := range list {
			r.again(err)
		}
	}
	c.mu.Unlock()
	token(c.kick)
	token(c.ready)
}

// again has the leader looked up and the partition asked for again, after a while. mu is held.
func (r *reading) again(why error) {
	r.why = why
	r.leader = -1
	r.tries++
	r.retry = time.Now().Add(backoff(r.tries))
}

// ask notes that an answer is wanted. mu is held.
func (r *reading) ask(now time.Time) {
	if r.silent.IsZero() {
		r.silent = now
	}
}

// answered ends the silence. mu is held.
func (r *reading) answered() { r.silent, r.why = time.Time{}, nil }

// keep takes over an answer. mu is held. What it has of several partitions is copied, because they
// lie in one buffer and the last of them that waits would keep it all.
func (c *kafkaConsumer) keep(list []*reading, response *kmsg.FetchResponse) {
	parts := 0
	for i := range response.Topics {
		for j := range response.Topics[i].Partitions {
			if len(response.Topics[i].Partitions[j].RecordBatches) > 0 {
				parts++
			}
		}
	}
	for i := range response.Topics {
		topic := &response.Topics[i]
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			for _, r := range list {
				if r.tp.Partition == p.Partition && c.mu.at[r.tp] == r &&
					(r.tp.Topic == topic.Topic || topic.Topic == "" && r.id == topic.TopicID) {
					if parts > 1 {
						p.RecordBatches = bytes.Clone(p.RecordBatches)
					}
					c.keepOne(r, p)
				}
			}
		}
	}
}

// passing are answers that end when the leader is looked up again.
var passing = []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.NotLeaderForPartition,
	kerr.ReplicaNotAvailable, kerr.KafkaStorageError, kerr.UnknownLeaderEpoch,
	kerr.OffsetNotAvailable, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch,
	kerr.InconsistentTopicID}

// keepOne takes over what is said of one partition. mu is held.
func (c *kafkaConsumer) keepOne(r *reading, p *kmsg.FetchResponseTopicPartition) {
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		if slices.Contains(passing, err) {
			r.again(err)
		} else {
			c.fail(r, err)
		}
		return
	}
	r.answered()
	if len(p.RecordBatches) == 0 {
		r.tries = 0
		return
	}
	a := &answer{of: r, batches: p.RecordBatches, end: p.HighWatermark, from: r.next}
	next, whole := a.measure()
	if whole == 0 { // not even one batch had room
		r.maxBytes = min(2*r.maxBytes, maxAnswer)
		return
	}
	for _, t := range p.AbortedTransactions {
		a.aborted = append(a.aborted, aborted{producer: t.ProducerID, first: t.FirstOffset})
	}
	slices.SortFunc(a.aborted, func(x, y aborted) int { return int(min(1, max(-1, x.first-y.first))) })
	r.tries, r.maxBytes = 0, c.partitionBytes()
	r.next = next
	r.bytes += whole
	c.mu.answers = append(c.mu.answers, a)
}

// fail ends a reading: Poll tells why. mu is held.
func (c *kafkaConsumer) fail(r *reading, err error) {
	r.failed = true
	c.mu.answers = append(c.mu.answers, &answer{of: r, err: err})
	token(c.ready)
}

// lookUp asks who leads partitions.
func (c *kafkaConsumer) lookUp(list []*reading) {
	request := kmsg.NewPtrMetadataRequest()
	var names []string
	for _, r := range list {
		if slices.Contains(names, r.tp.Topic) {
			continue
		}
		names = append(names, r.tp.Topic)
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &names[len(names)-1]
		request.Topics = append(request.Topics, topic)
	}
	for i := range names { // names may have moved while it grew
		request.Topics[i].Topic = &names[i]
	}
	response, err := request.RequestWith(c.closing, c.client)
	c.mu.Lock()
	c.mu.looking = false
	for _, r := range list {
		if c.mu.at[r.tp] != r {
			continue
		}
		if err != nil {
			r.again(err)
			continue
		}
		c.lead(r, response)
	}
	c.mu.Unlock()
	token(c.kick)
}

// lead takes the leader of a partition from metadata. mu is held.
func (c *kafkaConsumer) lead(r *reading, metadata *kmsg.MetadataResponse) {
	leader, id, err := leaderOf(r.tp, metadata)
	switch {
	case err == nil && r.id != [16]byte{} && r.id != id:
		c.fail(r, kerr.UnknownTopicID) // another topic of the same name
	case err == nil && leader >= 0:
		r.leader, r.id = leader, id
	case errors.Is(err, kerr.UnknownTopicOrPartition) && r.tries >= unknownTries,
		err != nil && !kerr.IsRetriable(err):
		c.fail(r, err)
	case err == nil:
		r.again(kerr.LeaderNotAvailable)
	default:
		r.again(err)
	}
}

func leaderOf(tp TopicPartition, metadata *kmsg.MetadataResponse) (int32, [16]byte, error) {
	for i := range metadata.Topics {
		topic := &metadata.Topics[i]
		if topic.Topic == nil || *topic.Topic != tp.Topic {
			continue
		}
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return -1, topic.TopicID, err
		}
		for j := range topic.Partitions {
			if p := &topic.Partitions[j]; p.Partition == tp.Partition {
				return p.Leader, topic.TopicID, nil
			}
		}
	}
	return -1, [16]byte{}, kerr.UnknownTopicOrPartition
}
