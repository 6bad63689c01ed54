package server

import (
	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/quota"
	"github.com/millstream-io/millstream/core/storage"
)

// How the answer to a Fetch is encoded.

// answerError answers with a top-level error.
func (op *fetchOp) answerError(session int32, code int16, deferWrite bool) {
	version := op.head.Version
	buf := takeBuffer(firstBufferBytes)
	b := protocol.AppendResponseHeader(
		(*buf)[:0], op.head.Key, op.head.CorrelationID, version >= 12)
	b = protocol.AppendFetchStart(b, version, code, throttleMillis(op.throttle), session, 0)
	b = protocol.AppendFetchEnd(b, version, nil)
	protocol.FinishFrame(b, 0, 0)
	*buf = b
	op.span.api.failed(code)
	op.c.out.finish(op.slot, answer{bytes: buf, ended: op.end(len(b))}, deferWrite)
}

// answer encodes what collect found and completes the slot, which takes the chunks over.
func (op *fetchOp) answer(deferWrite bool) {
	if op.overQuota() {
		op.answerThrottled(deferWrite)
		return
	}
	session, code := op.closeSession()
	if code != 0 {
		op.drop()
		op.answerError(session, code, deferWrite)
		return
	}
	c, version := op.c, op.head.Version
	flexible := version >= 12
	buf := takeBuffer(firstBufferBytes)
	b := protocol.AppendResponseHeader(
		(*buf)[:0], op.head.Key, op.head.CorrelationID, flexible)
	b = protocol.AppendFetchStart(b, version, 0, 0, session, op.topicsAnswered())
	parts := takeParts()
	var nodes []protocol.Endpoint
	for i := range op.topics {
		t := &op.topics[i]
		if t.omitted == t.end-t.first {
			continue
		}
		b = protocol.AppendFetchTopic(b, version, t.name, t.id, t.end-t.first-t.omitted)
		for j := t.first; j < t.end; j++ {
			part := &op.parts[j]
			if part.omit {
				continue
			}
			op.span.api.failed(part.result.ErrorCode)
			c.s.count.fetched(part)
			b = protocol.AppendFetchPartition(b, version, &part.result)
			if part.result.RecordBytes > 0 {
				*parts = append(*parts, filePart{at: len(b), chunk: part.chunk})
				part.chunk, part.result.RecordBytes = storage.Chunk{}, 0
			}
			if part.result.Leader != nil {
				nodes = c.s.addEndpoint(nodes, part.result.Leader.ID, op.c.client.listener)
			}
			b = protocol.AppendFetchPartitionEnd(b, version, &part.result)
		}
		b = protocol.AppendTopicEnd(b, flexible)
	}
	b = protocol.AppendFetchEnd(b, version, nodes)
	protocol.FinishFrame(b, 0, op.bytes)
	*buf = b
	end := op.end(len(b) + op.bytes)
	c.out.finish(op.slot, answer{bytes: buf, parts: parts, ended: end}, deferWrite)
}

// Sizes of what is in a Fetch answer beside the records, in bytes and about, for quotas.
const (
	fetchAnswerBytes    = 32
	fetchPartitionBytes = 40
)

// overQuota counts the answer, and tells whether the client has to wait for it.
func (op *fetchOp) overQuota() bool {
	c := op.c
	if !c.bound(quota.Fetch) && !c.bound(quota.Request) {
		return false
	}
	bytes := fetchAnswerBytes + op.bytes
	for i := range op.parts {
		if op.session == nil || op.parts[i].result.RecordBytes > 0 {
			bytes += fetchPartitionBytes
		}
	}
	op.throttle = c.chargeFetch(op, bytes)
	return op.throttle > 0
}

// answerThrottled answers without any partition: what the session has of them stays as it was.
func (op *fetchOp) answerThrottled(deferWrite bool) {
	op.drop()
	session, code := noSession, int16(0)
	if op.session != nil {
		session, code = op.session.id, op.session.leave(op)
	}
	op.c.gate.mute(op.throttle)
	op.answerError(session, code, deferWrite)
}

// end counts what was done for the request.
func (op *fetchOp) end(answerBytes int) ended {
	end := op.span.end(answerBytes)
	end.judge(op.c, &op.span, op.head.Key, op.head.Version, true,
		func() int { return len(op.topics) })
	return end
}

// topicsAnswered counts the topics of which the answer says something.
func (op *fetchOp) topicsAnswered() int {
	n := len(op.topics)
	for i := range op.topics {
		if t := &op.topics[i]; t.omitted == t.end-t.first {
			n--
		}
	}
	return n
}

// recycle gives the operation back to the pool, unless its timer is about to call it.
func (op *fetchOp) recycle() {
	s, reusable := op.c.s, !op.armed || op.timer.Stop() || op.expired.Load()
	clear(op.topics)
	clear(op.parts)
	op.topics, op.parts = op.topics[:0], op.parts[:0]
	op.c, op.slot, op.armed = nil, nil, false
	op.create, op.session, op.sessionEpoch = false, nil, 0
	op.throttle, op.worked = 0, 0
	op.last.Store(false)
	op.expired.Store(false)
	if reusable && cap(op.parts) <= maxPooledPartitions {
		s.fetchOps.Put(op)
	}
}
