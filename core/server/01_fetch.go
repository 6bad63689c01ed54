package server

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
)

// Fetch (key 1), versions 4 to 18.
//
//   - Whole batches up to the high watermark, bounded by the limits of the request, but always
//     one batch, however large, when there is one (KIP-74).
//   - Long poll: an answer with less than min bytes is parked, with one timer, in the waiter
//     lists of its partitions. It is sent at once on an error, a divergence, an exhausted
//     partition limit, or when there is nothing to wait for.
//   - Leader epochs fence (KIP-320); from version 12 a client whose log differs gets the point
//     where it does, and no records (KIP-595).
//   - Log bytes go from file to socket; only the rest of the answer is encoded.
//
// Known gaps: sessions (KIP-227) are answered with session id 0, which means "none"; transactions
// (the last stable offset is the high watermark); follower fetching (KIP-392).

// fetchOp is one Fetch request on its way. It is pooled.
type fetchOp struct {
	c    *conn
	slot *slot
	head protocol.Header
	req  protocol.FetchRequest
	// topics have the order of the request, parts that of its partitions.
	topics []fetchTopic
	parts  []fetchPart
	start  time.Time
	// deadline is when the answer goes out with whatever there is.
	deadline time.Time

	// bytes is the size of the records found by the last collect, urgent that waiting for more
	// makes no sense.
	bytes  int
	urgent bool

	// state says who may touch the operation, see fetchRunning.
	state atomic.Int32
	// last tells that the next collect is the last one.
	last atomic.Bool
	// expired tells that expire has run.
	expired atomic.Bool
	// armed tells that timer was started for this request.
	armed bool
	// timer calls expire; onExpire, onAbandon and onResume are methods as values. All are made
	// once per pooled operation.
	timer                         *time.Timer
	onExpire, onAbandon, onResume func()
}

// States of a fetchOp. A waiter that comes late, even to an operation that serves another request
// by then, changes nothing but that this one looks once more.
const (
	fetchRunning int32 = iota // owned by one goroutine
	fetchWoken                // the same, and it should look again before it parks
	fetchParked               // owned by whoever sets fetchRunning first
)

// fetchTopic is what the answer says about a topic.
type fetchTopic struct {
	name       string
	id         uuid.UUID
	first, end int
}

// fetchPart is one partition of the request and what was found in it.
type fetchPart struct {
	protocol.FetchPartition
	partition *replica.Partition // nil when err is set
	err       error
	result    protocol.FetchResult
	chunk     storage.Chunk
	// next is the offset from which on new data is waited for.
	next int64
}

var fetchOps sync.Pool

func takeFetchOp() *fetchOp {
	if op, ok := fetchOps.Get().(*fetchOp); ok {
		return op
	}
	op := new(fetchOp)
	op.onExpire, op.onAbandon, op.onResume = op.expire, op.abandon, op.resume
	return op
}

// fetch handles a Fetch request on the reader goroutine.
func (c *conn) fetch(head protocol.Header, body []byte) error {
	op := takeFetchOp()
	op.c, op.head, op.start = c, head, time.Now()
	op.head.ClientID = nil
	if err := op.req.Decode(head.Version, body); err != nil {
		return err
	}
	c.internClientID(head.ClientID)
	if op.slot = c.out.begin(); op.slot == nil {
		return net.ErrClosed
	}
	if code := op.sessionError(); code != 0 {
		op.answerError(code)
		return nil
	}
	op.resolve()
	wait := time.Duration(op.req.MaxWaitMillis) * time.Millisecond
	op.deadline = op.start.Add(wait)
	op.last.Store(wait <= 0 || len(op.parts) == 0)
	if op.collect() {
		op.answer(true)
		op.recycle()
		return nil
	}
	c.s.waits.Add(1)
	if !c.out.park(op.slot, op.onAbandon) {
		op.last.Store(true)
	}
	op.arm(wait)
	op.run()
	return nil
}

// sessionError refuses what would need a session (KIP-227).
func (op *fetchOp) sessionError() int16 {
	switch {
	case op.req.SessionID != 0:
		return kerr.FetchSessionIDNotFound.Code
	case op.req.SessionEpoch > 0:
		return kerr.InvalidFetchSessionEpoch.Code
	}
	return 0
}

// resolve turns names and ids into partitions, and keeps nothing of the frame.
func (op *fetchOp) resolve() {
	byID := op.head.Version >= 13
	for i := range op.req.Topics {
		t := &op.req.Topics[i]
		topic := fetchTopic{id: t.ID, first: len(op.parts)}
		for j := t.First; j < t.End; j++ {
			part := fetchPart{FetchPartition: op.req.Partitions[j]}
			part.partition, part.err = op.c.s.partition(t.Name, t.ID, byID, part.Index)
			if op.req.ReplicaID >= 0 {
				// No other broker is a replica of anything here.
				part.partition, part.err = nil, kerr.UnknownLeaderEpoch
			}
			if p := part.partition; p != nil && topic.name == "" {
				topic.name = p.TopicPartition().Topic
			}
			op.parts = append(op.parts, part)
		}
		topic.end = len(op.parts)
		if topic.name == "" && !byID {
			topic.name = string(t.Name)
		}
		op.topics = append(op.topics, topic)
	}
}

// collect reads what there is. It reports whether the answer should go out now.
func (op *fetchOp) collect() bool {
	op.bytes, op.urgent = 0, false
	limit := min(int(op.req.MaxBytes), op.c.s.opts.Limits.FetchBytes)
	for i := range op.topics {
		t := &op.topics[i]
		for j := t.first; j < t.end; j++ {
			op.collectPart(t, &op.parts[j], max(limit-op.bytes, 0))
		}
	}
	return op.urgent || op.last.Load() || op.bytes >= int(op.req.MinBytes)
}

// collectPart reads one partition, at most limit bytes unless it is the first batch at all.
func (op *fetchOp) collectPart(t *fetchTopic, part *fetchPart, limit int) {
	r := &part.result
	*r = protocol.FetchResult{
		Index: part.Index, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
	}
	p := part.partition
	if p == nil {
		op.refuse(t, part, part.err)
		return
	}
	limit = min(limit, max(int(part.MaxBytes), 0))
	chunk, err := p.Read(replica.ReadRequest{
		Offset: part.Offset, MaxBytes: limit, MinOne: op.bytes == 0,
		LeaderEpoch: part.CurrentLeaderEpoch,
	})
	if err != nil {
		op.refuse(t, part, err)
		return
	}
	if err := op.checkDivergence(part); err != nil {
		chunk.Release()
		op.refuse(t, part, err)
		return
	}
	highWatermark := p.HighWatermark()
	r.HighWatermark, r.LastStableOffset = highWatermark, highWatermark
	r.LogStartOffset = p.StartOffset()
	r.ReadCommitted = op.req.IsolationLevel == 1
	if r.Diverging != nil {
		chunk.Release()
		op.urgent = true
		return
	}
	part.chunk = chunk
	r.RecordBytes = chunk.Len()
	op.bytes += chunk.Len()
	part.next = part.Offset
	if chunk.Len() > 0 {
		part.next = chunk.NextOffset()
		// More is there than the partition's own limit lets through: waiting gets no more.
		op.urgent = op.urgent || part.next < highWatermark
	} else if part.Offset < highWatermark {
		op.urgent = true // the limits are used up
	}
}

// checkDivergence finds where the client's log differs from this one, if it says what it has. An
// epoch later than all of this log's has no such place: that is an error, as in Kafka.
func (op *fetchOp) checkDivergence(part *fetchPart) error {
	if part.LastFetchedEpoch < 0 || op.head.Version < 12 {
		return nil
	}
	epoch, end := part.partition.OffsetForLeaderEpoch(part.LastFetchedEpoch)
	switch {
	case epoch < 0 || end < 0:
		return fmt.Errorf("epoch %d is not known: %w",
			part.LastFetchedEpoch, storage.ErrOffsetOutOfRange)
	case epoch != part.LastFetchedEpoch || end < part.Offset:
		part.result.Diverging = &protocol.EpochEnd{Epoch: epoch, EndOffset: end}
	}
	return nil
}

// refuse records why a partition gives nothing.
func (op *fetchOp) refuse(t *fetchTopic, part *fetchPart, err error) {
	part.result.ErrorCode = errorCode(err)
	if wantsLeader(part.result.ErrorCode) && op.head.Version >= 12 {
		part.result.Leader = op.c.s.currentLeader(t.name, t.id, part.Index)
	}
	op.urgent = true
	if part.result.ErrorCode == kerr.UnknownServerError.Code {
		op.c.s.log.Error("cannot read", "topic", t.name, "partition", part.Index,
			"offset", part.Offset, "error", err.Error())
	}
}

// drop releases what collect has found.
func (op *fetchOp) drop() {
	for i := range op.parts {
		part := &op.parts[i]
		if part.result.RecordBytes > 0 {
			part.chunk.Release()
			part.chunk, part.result.RecordBytes = storage.Chunk{}, 0
		}
	}
}

// arm starts the timer of a request that is going to wait.
func (op *fetchOp) arm(wait time.Duration) {
	op.armed = true
	if op.timer == nil {
		op.timer = time.AfterFunc(wait, op.onExpire)
	} else {
		op.timer.Reset(wait)
	}
}

// run parks the operation, or answers when there is enough meanwhile.
func (op *fetchOp) run() {
	for !op.park() {
		if op.collect() {
			s := op.c.s
			op.answer(false)
			op.recycle()
			s.waits.Done()
			return
		}
	}
}

// park gives the operation away until something happens. It reports false when something has
// happened already: then the caller still owns it.
func (op *fetchOp) park() bool {
	op.drop()
	for i := range op.parts {
		part := &op.parts[i]
		p := part.partition
		// A partition that cannot wait because its disk has failed is not a reason to look
		// again: that would not end before the deadline.
		if p != nil && !p.WaitData(part.next, op) && p.HighWatermark() > part.next {
			op.state.Store(fetchWoken)
			break
		}
	}
	if !op.last.Load() && op.state.CompareAndSwap(fetchRunning, fetchParked) {
		return true
	}
	op.forget()
	op.state.Store(fetchRunning)
	return false
}

// forget takes the operation out of the waiter lists.
func (op *fetchOp) forget() {
	for i := range op.parts {
		if p := op.parts[i].partition; p != nil {
			p.Forget(op)
		}
	}
}

// Wake implements replica.Waiter: there may be new data. It is called by the one who appended or
// synced it, so the reading is done on a goroutine of its own.
func (op *fetchOp) Wake() {
	for {
		switch op.state.Load() {
		case fetchParked:
			if op.state.CompareAndSwap(fetchParked, fetchRunning) {
				go op.onResume()
				return
			}
		case fetchRunning:
			if op.state.CompareAndSwap(fetchRunning, fetchWoken) {
				return
			}
		default:
			return
		}
	}
}

// resume looks again after a wake-up.
func (op *fetchOp) resume() {
	c, head := op.c, op.head
	defer func() {
		if p := recover(); p != nil {
			c.close(c.panicked(head, p))
			c.s.waits.Done()
		}
	}()
	op.forget()
	if op.collect() {
		op.answer(false)
		op.recycle()
		c.s.waits.Done()
		return
	}
	op.run()
}

// expire answers when the client's wait is over.
func (op *fetchOp) expire() {
	op.last.Store(true)
	op.expired.Store(true)
	op.Wake()
}

// abandon ends the wait because the connection or the server closes.
func (op *fetchOp) abandon() {
	op.last.Store(true)
	op.Wake()
}

// answerError answers with a top-level error.
func (op *fetchOp) answerError(code int16) {
	version := op.head.Version
	buf := takeBuffer(firstBufferBytes)
	b := protocol.AppendResponseHeader(
		(*buf)[:0], op.head.Key, op.head.CorrelationID, version >= 12)
	b = protocol.AppendFetchStart(b, version, code, 0, 0)
	b = protocol.AppendFetchEnd(b, version, nil)
	protocol.FinishFrame(b, 0, 0)
	*buf = b
	op.c.out.finish(op.slot, answer{bytes: buf}, true)
	op.recycle()
}

// answer encodes what collect found and completes the slot, which takes the chunks over.
func (op *fetchOp) answer(deferWrite bool) {
	c, version := op.c, op.head.Version
	flexible := version >= 12
	buf := takeBuffer(firstBufferBytes)
	b := protocol.AppendResponseHeader(
		(*buf)[:0], op.head.Key, op.head.CorrelationID, flexible)
	b = protocol.AppendFetchStart(b, version, 0, 0, len(op.topics))
	parts := takeParts()
	var nodes []protocol.Endpoint
	for i := range op.topics {
		t := &op.topics[i]
		b = protocol.AppendFetchTopic(b, version, t.name, t.id, t.end-t.first)
		for j := t.first; j < t.end; j++ {
			part := &op.parts[j]
			b = protocol.AppendFetchPartition(b, version, &part.result)
			if part.result.RecordBytes > 0 {
				*parts = append(*parts, filePart{at: len(b), chunk: part.chunk})
				part.chunk, part.result.RecordBytes = storage.Chunk{}, 0
			}
			if part.result.Leader != nil {
				nodes = c.s.addEndpoint(nodes, part.result.Leader.ID)
			}
			b = protocol.AppendFetchPartitionEnd(b, version, &part.result)
		}
		b = protocol.AppendTopicEnd(b, flexible)
	}
	b = protocol.AppendFetchEnd(b, version, nodes)
	protocol.FinishFrame(b, 0, op.bytes)
	*buf = b
	c.s.metrics.fetched.Add(int64(op.bytes))
	c.s.metrics.handled(op.head.Key, time.Since(op.start))
	c.out.finish(op.slot, answer{bytes: buf, parts: parts}, deferWrite)
}

// recycle gives the operation back to the pool, unless its timer is about to call it.
func (op *fetchOp) recycle() {
	reusable := !op.armed || op.timer.Stop() || op.expired.Load()
	clear(op.topics)
	clear(op.parts)
	op.topics, op.parts = op.topics[:0], op.parts[:0]
	op.c, op.slot, op.armed = nil, nil, false
	op.last.Store(false)
	op.expired.Store(false)
	if reusable && cap(op.parts) <= maxPooledPartitions {
		fetchOps.Put(op)
	}
}
