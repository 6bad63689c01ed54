package server

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
)

// Produce (key 0), versions 3 to 13; 0 to 2 are advertised, not served (handler_table.go).
//
//   - Batches are appended on the connection's reader, in the order of its requests, from the
//     buffer they arrived in; the buffer is free again when the append returns.
//   - acks=1 answers after the append, acks=-1 when the high watermark has passed the batch, by
//     a waiter, acks=0 not at all; an error with acks=0 closes the connection.
//   - A repeated batch is answered with its first offset, and waits like a new one.
//   - Needs WRITE on the topic, and on the transactional id if there are transactional batches.
//   - Internal topics refuse clients other than Kafka's admin client.
//   - Answers carry record errors (KIP-467) and the current leader (KIP-951).
//   - Transactional batches are checked with the coordinator first (00_produce_transaction.go).

// Values of acks.
const (
	acksAll  = -1
	acksNone = 0
	acksOne  = 1
)

// produceOp is one Produce request on its way. It is pooled.
type produceOp struct {
	c    *conn
	slot *slot
	head protocol.Header
	req  protocol.ProduceRequest
	// topics, results and waits have the request's order; results and waits its partitions'.
	topics  []produceTopic
	results []protocol.ProduceResult
	waits   []produceWait
	// verified has what is known of each partition's batch; empty without transactions.
	verified []verification
	span     span

	// throttle is how long the client has to wait.
	throttle time.Duration

	// pending counts the partitions whose high watermark has not passed yet, plus one until all
	// waiters are registered.
	pending atomic.Int32
	// ended is set by whoever answers: the last waiter, the timer, or cancel.
	ended atomic.Bool
	// timer calls expire; it is made once per pooled operation.
	timer *time.Timer
	// onExpire and onAbandon are the methods as values, made once.
	onExpire, onAbandon func()
}

// produceTopic is what the answer says about a topic.
type produceTopic struct {
	name       string
	id         uuid.UUID
	first, end int
}

// produceWait is a partition whose high watermark is waited for.
type produceWait struct {
	partition *replica.Partition // nil when there is nothing to wait for
	offset    int64              // the high watermark that is wanted
}

func (s *Server) takeProduceOp() *produceOp {
	if op, ok := s.produceOps.Get().(*produceOp); ok {
		return op
	}
	op := new(produceOp)
	op.onExpire, op.onAbandon = op.expire, op.abandon
	return op
}

// produce handles a Produce request on the reader goroutine.
func (c *conn) produce(head protocol.Header, body []byte) error {
	op := c.s.takeProduceOp()
	clientID := c.internClientID(head.ClientID)
	op.c, op.head, op.span = c, head, c.startSpan(head.Key)
	op.head.ClientID = nil
	if err := op.req.Decode(head.Version, body); err != nil {
		return err
	}
	acks := op.req.Acks
	if acks != acksNone {
		if op.slot = c.out.begin(); op.slot == nil {
			return net.ErrClosed
		}
		op.span.queued = op.slot.queued
	}
	op.append(clientID)
	c.chargeProduce(op)
	if acks == acksNone {
		err := op.firstError()
		op.recycle()
		return err
	}
	if acks == acksAll {
		if op.wait() {
			return nil
		}
	}
	op.finish(true)
	return nil
}

// append appends every partition of the request.
func (op *produceOp) append(clientID string) {
	req := &op.req
	if op.isTransactional() {
		op.verify(clientID)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := produceTopic{id: t.ID, first: len(op.results)}
		for j := t.First; j < t.End; j++ {
			op.appendPartition(t, j, clientID)
			if p := op.waits[len(op.waits)-1].partition; p != nil && topic.name == "" {
				topic.name = p.TopicPartition().Topic
			}
		}
		topic.end = len(op.results)
		if topic.name == "" && op.head.Version < 13 {
			topic.name = string(t.Name)
		}
		op.topics = append(op.topics, topic)
	}
}

// appendPartition appends one partition and records its result.
func (op *produceOp) appendPartition(
	t *protocol.ProduceTopic, i int, clientID string,
) {
	s, in := op.c.s, &op.req.Partitions[i]
	result := protocol.ProduceResult{
		Index: in.Index, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1,
	}
	var wait produceWait
	p, err := op.resolve(t, in.Index, clientID)
	if len(op.verified) > 0 && op.verified[i].err == error(kerr.TransactionalIDAuthorizationFailed) {
		err = op.verified[i].err // which is asked for first
	}
	options := replica.AppendOptions{Acks: op.req.Acks}
	if err == nil && len(op.verified) > 0 {
		options.Guard, err = op.verified[i].guard, op.verified[i].err
		options.TransactionVersion = transactionVersion(op.head.Version, produceAdds)
	}
	if err == nil {
		var done storage.AppendResult
		done, err = p.Append(in.Records, options)
		if err == nil {
			result.BaseOffset = done.BaseOffset
			result.LogAppendTime = done.LogAppendTime
			result.LogStartOffset = done.LogStartOffset
			wait = produceWait{partition: p, offset: done.LastOffset + 1}
			s.count.appended(p, len(in.Records), &done)
		}
	}
	if err != nil {
		op.refuse(&result, t, err)
		s.count.notAppended(p)
	}
	op.results = append(op.results, result)
	op.waits = append(op.waits, wait)
}

// resolve finds the partition and checks what does not depend on the records.
func (op *produceOp) resolve(
	t *protocol.ProduceTopic, index int32, clientID string,
) (*replica.Partition, error) {
	if a := op.req.Acks; a != acksAll && a != acksNone && a != acksOne {
		return nil, kerr.InvalidRequiredAcks
	}
	if op.head.Version < 13 && !op.mayWrite(alias(t.Name)) {
		return nil, kerr.TopicAuthorizationFailed // whether it exists or not
	}
	p, err := op.c.s.partition(t.Name, t.ID, op.head.Version >= 13, index)
	if err != nil {
		return nil, err
	}
	if op.head.Version >= 13 && !op.mayWrite(p.TopicPartition().Topic) {
		return nil, kerr.TopicAuthorizationFailed
	}
	if metadata.IsInternalTopic(p.TopicPartition().Topic) && clientID != adminClientID {
		return nil, kerr.InvalidTopicException
	}
	return p, nil
}

// mayWrite tells whether the client may write to a topic.
func (op *produceOp) mayWrite(topic string) bool {
	return op.c.s.may(&op.c.client, metadata.ACLWrite, metadata.ACLTopic, topic)
}

// refuse records why a partition's records were not taken.
func (op *produceOp) refuse(r *protocol.ProduceResult, t *protocol.ProduceTopic, err error) {
	r.ErrorCode = errorCode(err)
	r.ErrorMessage = err.Error()
	var records *storage.RecordsError
	if errors.As(err, &records) {
		for _, re := range records.Records {
			r.RecordErrors = append(r.RecordErrors, protocol.RecordError{
				BatchIndex: int32(re.Index), Message: re.Message,
			})
		}
	}
	if wantsLeader(r.ErrorCode) {
		r.Leader = op.c.s.currentLeader(string(t.Name), t.ID, r.Index)
	}
	op.complain(r.ErrorCode, err)
}

// complain logs what is the broker's fault and not the client's: a full or failed disk above all.
// The clients try again many times a second, so few of these lines come through.
func (op *produceOp) complain(code int16, err error) {
	ours := code == kerr.UnknownServerError.Code || code == kerr.KafkaStorageError.Code
	if ours && op.c.s.refusals.allow() {
		op.c.s.log.Error("write refused", "error", err.Error()) // it names the partition
	}
}

// wait registers for the high watermarks. It reports false when all have passed already.
func (op *produceOp) wait() bool {
	op.pending.Store(1)
	for i := range op.waits {
		w := &op.waits[i]
		if w.partition == nil {
			continue
		}
		op.pending.Add(1)
		if !w.partition.WaitCommitted(w.offset, op) {
			op.checkCommitted(i, w.partition)
			op.pending.Add(-1)
		}
	}
	if op.pending.Load() == 1 {
		return false
	}
	op.c.s.waits.Add(1)
	op.c.s.count.parkedProduces.Add(1)
	op.span.parked = clock()
	// The slot is parked before anything can end the wait but that itself.
	if !op.c.out.park(op.slot, op.onAbandon) {
		op.abandon()
	}
	timeout := time.Duration(max(op.req.TimeoutMillis, 0)) * time.Millisecond
	if op.timer == nil {
		op.timer = time.AfterFunc(timeout, op.onExpire)
	} else {
		op.timer.Reset(timeout)
	}
	// From the last decrement on the operation may be answered and reused.
	op.Wake()
	return true
}

// Wake implements replica.Waiter: one more partition is where it should be.
func (op *produceOp) Wake() {
	if op.pending.Add(-1) != 0 || !op.ended.CompareAndSwap(false, true) {
		return
	}
	defer op.c.s.waits.Done()
	op.c.s.count.parkedProduces.Add(-1)
	reusable := op.timer.Stop()
	for i := range op.waits {
		if p := op.waits[i].partition; p != nil {
			op.checkCommitted(i, p)
		}
	}
	op.answer(false)
	if reusable {
		op.recycle()
	}
}

// checkCommitted turns a result into an error if its partition stopped serving meanwhile.
func (op *produceOp) checkCommitted(i int, p *replica.Partition) {
	if err := p.Err(); err != nil && p.HighWatermark() < op.waits[i].offset {
		op.fail(i, errorCode(err))
	}
}

// fail replaces a result by an error.
func (op *produceOp) fail(i int, code int16) {
	r := &op.results[i]
	*r = protocol.ProduceResult{
		Index: r.Index, ErrorCode: code, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1,
	}
}

// expire answers when the client's timeout has passed: REQUEST_TIMED_OUT for what is not there.
func (op *produceOp) expire() { op.giveUp(kerr.RequestTimedOut.Code) }

// abandon ends the wait because the connection or the server closes.
func (op *produceOp) abandon() { op.giveUp(kerr.RequestTimedOut.Code) }

// giveUp answers early. The operation is not reused: a waiter may still call Wake.
func (op *produceOp) giveUp(code int16) {
	if !op.ended.CompareAndSwap(false, true) {
		return
	}
	defer op.c.s.waits.Done()
	op.c.s.count.parkedProduces.Add(-1)
	for i := range op.waits {
		p := op.waits[i].partition
		if p == nil {
			continue
		}
		p.Forget(op)
		if p.HighWatermark() < op.waits[i].offset {
			op.fail(i, code)
		}
	}
	op.answer(false)
}

// finish answers on the reader goroutine.
func (op *produceOp) finish(deferWrite bool) {
	op.answer(deferWrite)
	op.recycle()
}

// answer encodes the results and completes the slot.
func (op *produceOp) answer(deferWrite bool) {
	c, version := op.c, op.head.Version
	buf := takeBuffer(firstBufferBytes)
	b := protocol.AppendResponseHeader(
		(*buf)[:0], op.head.Key, op.head.CorrelationID, version >= 9)
	b = protocol.AppendProduceTopics(b, version, len(op.topics))
	var nodes []protocol.Endpoint
	for i := range op.topics {
		t := &op.topics[i]
		b = protocol.AppendProduceTopic(b, version, t.name, t.id, t.end-t.first)
		for j := t.first; j < t.end; j++ {
			r := &op.results[j]
			if r.Leader != nil {
				nodes = c.s.addEndpoint(nodes, r.Leader.ID, c.client.listener)
			}
			op.span.api.failed(r.ErrorCode)
			b = protocol.AppendProducePartition(b, version, r)
		}
		b = protocol.AppendTopicEnd(b, version >= 9)
	}
	b = protocol.AppendProduceEnd(b, version, throttleMillis(op.throttle), nodes)
	protocol.FinishFrame(b, 0, 0)
	*buf = b
	end := op.span.end(len(b))
	end.judge(c, &op.span, op.head.Key, version, false, func() int { return len(op.topics) })
	c.out.finish(op.slot, answer{bytes: buf, ended: end}, deferWrite)
}

// firstError returns the error that closes a connection that asked for no answers.
func (op *produceOp) firstError() error {
	end := op.span.end(0)
	end.judge(op.c, &op.span, op.head.Key, op.head.Version, false,
		func() int { return len(op.topics) })
	end.written(end.finished) // there is no answer
	for i := range op.results {
		if r := &op.results[i]; r.ErrorCode != 0 {
			op.span.api.failed(r.ErrorCode)
			return fmt.Errorf("produce with acks=0 to partition %d: error %d: %s",
				r.Index, r.ErrorCode, r.ErrorMessage)
		}
	}
	return nil
}

// recycle gives the operation back to the pool. Nobody else may know it any more.
func (op *produceOp) recycle() {
	s := op.c.s
	clear(op.topics)
	clear(op.results)
	clear(op.waits)
	clear(op.verified)
	op.topics, op.results, op.waits = op.topics[:0], op.results[:0], op.waits[:0]
	op.verified = op.verified[:0]
	op.c, op.slot, op.throttle = nil, nil, 0
	op.req.Reset()
	op.pending.Store(0)
	op.ended.Store(false)
	if cap(op.results) <= maxPooledPartitions {
		s.produceOps.Put(op)
	}
}

// maxPooledPartitions bounds the size of the operations that are kept for reuse.
const maxPooledPartitions = 4096
