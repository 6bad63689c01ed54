package server

import (
	"cmp"
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

// Fetch (key 1), versions 4 to 18.
//
//   - Whole batches up to the high watermark, or with read_committed up to the last stable offset
//     and with the list of the aborted transactions among them; bounded by the limits of the
//     request, but always one batch, however large, when there is one (KIP-74).
//   - Long poll: an answer with less than min bytes is parked, with one timer, in the waiter
//     lists of its partitions. It is sent at once on an error, a divergence, an exhausted
//     partition limit, or when there is nothing to wait for.
//   - Needs READ on the topic, CLUSTER_ACTION on the cluster as a broker.
//   - Leader epochs fence (KIP-320); from version 12 a client whose log differs gets the point
//     where it does, and no records (KIP-595).
//   - Sessions (KIP-227): fetch_session.go.
//   - A broker that is no replica of a partition gets NOT_LEADER_OR_FOLLOWER, or, if it says which
//     epoch it takes for the current one, UNKNOWN_LEADER_EPOCH.
//   - Log bytes go from file to socket; only the rest of the answer is encoded.
//
// Known gap: follower fetching (KIP-392).

// Isolation levels of a request.
const (
	readUncommitted int8 = 0
	readCommitted   int8 = 1
)

// versionCurrentLeader is the version from which on an answer tells who leads instead (KIP-951).
const versionCurrentLeader = 16

// fetchOp is one Fetch request on its way. It is pooled.
type fetchOp struct {
	c    *conn
	slot *slot
	head protocol.Header
	req  protocol.FetchRequest
	// topics have the order of the request, parts that of its partitions.
	topics []fetchTopic
	parts  []fetchPart
	span   span

	// create asks for a session at the answer. session, otherwise, is the one that the request is
	// of, and sessionEpoch the epoch that it then has if nobody overtakes the request.
	create       bool
	session      *fetchSession
	sessionEpoch int32

	// user is whose quota counts, most what the answer may have of records, in bytes.
	user string
	most int
	// worked is how long the broker itself has worked on the request, in nanoseconds, throttle how
	// long the client has to wait.
	worked   int64
	throttle time.Duration

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
	// omitted counts its partitions of which the answer says nothing.
	omitted int
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
	// cached is what the session has of the partition; nil without one.
	cached *sessionPart
	// omit keeps it out of the answer: the client knows all of it.
	omit bool
}

func (s *Server) takeFetchOp() *fetchOp {
	if op, ok := s.fetchOps.Get().(*fetchOp); ok {
		return op
	}
	op := new(fetchOp)
	op.onExpire, op.onAbandon, op.onResume = op.expire, op.abandon, op.resume
	return op
}

// fetch handles a Fetch request on the reader goroutine.
func (c *conn) fetch(head protocol.Header, body []byte) error {
	op := c.s.takeFetchOp()
	c.internClientID(head.ClientID)
	op.c, op.head, op.span = c, head, c.startSpan(head.Key)
	op.head.ClientID = nil
	if err := op.req.Decode(head.Version, body); err != nil {
		return err
	}
	if op.req.SessionID != noSession {
		if session := c.s.sessions.find(op.req.SessionID); session != nil {
			session.await(c)
		}
	}
	if op.slot = c.out.begin(); op.slot == nil {
		return net.ErrClosed
	}
	op.span.queued = op.slot.queued
	if code := op.openSession(); code != 0 {
		op.answerError(noSession, code, true)
		op.recycle()
		return nil
	}
	wait := time.Duration(op.req.MaxWaitMillis) * time.Millisecond
	op.last.Store(wait <= 0 || len(op.parts) == 0)
	op.user = c.client.user()
	op.most = c.mostFetched(min(int(op.req.MaxBytes), c.s.opts.Limits.FetchBytes))
	if c.bulk {
		giveWay() // the disk may have to be read for headers too
	}
	enough := op.collect()
	c.bulk = op.bytes >= sendfileBytes
	op.worked = clock() - op.span.start - op.span.queued
	if enough {
		op.answer(true)
		op.recycle()
		return nil
	}
	c.s.waits.Add(1)
	c.s.count.parkedFetches.Add(1)
	op.span.parked = clock()
	if !c.out.park(op.slot, op.onAbandon) {
		op.last.Store(true)
	}
	op.arm(wait)
	op.run()
	return nil
}

// resolve takes the partitions that the request names, and keeps nothing of the frame.
func (op *fetchOp) resolve() {
	for i := range op.req.Topics {
		t := &op.req.Topics[i]
		op.topics = append(op.topics, fetchTopic{id: t.ID, first: len(op.parts)})
		for j := t.First; j < t.End; j++ {
			op.addPart(alias(t.Name), op.req.Partitions[j], nil)
		}
		topic := &op.topics[len(op.topics)-1]
		topic.end = len(op.parts)
		if topic.name == "" {
			topic.name = string(t.Name)
		}
	}
}

// takeSession takes the partitions of a session, in its order. Neighbours of one topic share a
// place in the answer.
func (op *fetchOp) takeSession(first *sessionPart) {
	for p := first; p != nil; p = p.next {
		if p.prev == nil || p.prev.key.name != p.key.name || p.prev.key.id != p.key.id {
			op.topics = append(op.topics, fetchTopic{
				name: p.key.name, id: p.key.id, first: len(op.parts),
			})
		}
		op.addPart(p.key.name, p.asked, p)
		op.topics[len(op.topics)-1].end = len(op.parts)
	}
}

// addPart adds a partition to the last topic. The name is not kept.
func (op *fetchOp) addPart(name string, asked protocol.FetchPartition, cached *sessionPart) {
	t := &op.topics[len(op.topics)-1]
	part := fetchPart{FetchPartition: asked, cached: cached}
	part.partition, part.err = op.c.s.lookup(name, t.id, op.head.Version >= 13, asked.Index)
	if op.req.ReplicaID >= 0 {
		// No other broker is a replica of anything here.
		part.partition, part.err = nil, notReplica(asked.CurrentLeaderEpoch)
	}
	if op.req.IsolationLevel != readUncommitted && op.req.IsolationLevel != readCommitted {
		part.partition, part.err = nil, kerr.UnknownServerError
	}
	if p := part.partition; p != nil && t.name == "" {
		t.name = p.TopicPartition().Topic
	}
	if known := cmp.Or(name, t.name); !op.mayRead(known) {
		part.partition, part.err = nil, kerr.TopicAuthorizationFailed
	}
	op.parts = append(op.parts, part)
}

// mayRead tells whether the client may read a topic; as a broker it must be one.
func (op *fetchOp) mayRead(topic string) bool {
	s, c := op.c.s, &op.c.client
	if op.req.ReplicaID >= 0 {
		return s.mayCluster(c, metadata.ACLClusterAction)
	}
	return topic == "" || s.may(c, metadata.ACLRead, metadata.ACLTopic, topic)
}

// notReplica is what a broker gets that is no replica of a partition: it may have newer metadata
// than this one.
func notReplica(clientEpoch int32) error {
	if clientEpoch < 0 {
		return kerr.NotLeaderForPartition
	}
	return kerr.UnknownLeaderEpoch
}

// collect reads what there is. It reports whether the answer should go out now.
func (op *fetchOp) collect() bool {
	op.bytes, op.urgent = 0, false
	limit := op.most
	for i := range op.topics {
		t := &op.topics[i]
		for j := t.first; j < t.end; j++ {
			op.collectPart(t, &op.parts[j], max(limit-op.bytes, 0))
		}
	}
	return op.urgent || op.last.Load() || op.bytes >= min(int(op.req.MinBytes), op.most)
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
		switch r.ErrorCode {
		case kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code,
			kerr.UnknownServerError.Code:
			r.HasAborted = true // empty, as in Kafka, where errors of reading have none
		}
		return
	}
	limit = min(limit, max(int(part.MaxBytes), 0))
	err := op.checkDivergence(part)
	there := readLimit(p, op.committed())
	var chunk storage.Chunk
	if err == nil && r.Diverging == nil {
		chunk, err = p.Read(replica.ReadRequest{
			Offset: part.Offset, MaxBytes: limit, MinOne: op.bytes == 0,
			LeaderEpoch: part.CurrentLeaderEpoch, Committed: op.committed(),
		})
	}
	if err == nil && op.committed() {
		r.HasAborted = true
		r.Aborted, err = aborted(part, &chunk)
	}
	if err != nil {
		chunk.Release()
		r.HasAborted, r.Aborted = false, nil
		op.refuse(t, part, err)
		return
	}
	// In this order, since the last stable offset follows the high watermark.
	r.LastStableOffset = p.LastStableOffset()
	r.HighWatermark = p.HighWatermark()
	r.LogStartOffset = p.StartOffset()
	if r.Diverging != nil {
		op.urgent = true
		return
	}
	part.chunk = chunk
	r.RecordBytes = chunk.Len()
	op.bytes += chunk.Len()
	part.next = part.Offset
	if chunk.Len() > 0 {
		part.next = chunk.NextOffset()
	}
	// More was there than the limits let through: waiting gets no more. What came after the read is
	// another matter, a wait begins with it.
	op.urgent = op.urgent || part.next < there
}

// committed tells that the client wants no records of open or aborted transactions.
func (op *fetchOp) committed() bool { return op.req.IsolationLevel == readCommitted }

// aborted lists the aborted transactions of which the chunk may have records, from the offset that
// the client wants on. They were decided before the chunk was read, or it would end before them.
func aborted(part *fetchPart, chunk *storage.Chunk) ([]protocol.AbortedTransaction, error) {
	if chunk.Len() == 0 {
		return nil, nil
	}
	found, err := part.partition.AbortedTransactions(part.Offset, chunk.NextOffset())
	if err != nil || len(found) == 0 {
		return nil, err
	}
	list := make([]protocol.AbortedTransaction, 0, len(found))
	for _, t := range found {
		list = append(list, protocol.AbortedTransaction(t))
	}
	return list, nil
}

// checkDivergence finds where the client's log differs from this one, if it says what it has. An
// epoch later than all of this log's has no such place: that is an error, as in Kafka.
func (op *fetchOp) checkDivergence(part *fetchPart) error {
	if part.LastFetchedEpoch < 0 || op.head.Version < 12 {
		return nil
	}
	// A client with another leader epoch must not be told.
	if err := part.partition.CheckEpoch(part.CurrentLeaderEpoch); err != nil {
		return err
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

// fetchCode is errorCode for a partition of a Fetch answer: a Java consumer ends with an
// IllegalStateException at a code that it does not expect there.
func fetchCode(err error) int16 {
	switch code := errorCode(err); code {
	case 0, kerr.OffsetOutOfRange.Code, kerr.CorruptMessage.Code,
		kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code,
		kerr.ReplicaNotAvailable.Code, kerr.TopicAuthorizationFailed.Code,
		kerr.KafkaStorageError.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code,
		kerr.OffsetNotAvailable.Code, kerr.UnknownTopicID.Code, kerr.InconsistentTopicID.Code:
		return code
	}
	return kerr.UnknownServerError.Code
}

// refuse records why a partition gives nothing.
func (op *fetchOp) refuse(t *fetchTopic, part *fetchPart, err error) {
	part.result.ErrorCode = fetchCode(err)
	if wantsLeader(part.result.ErrorCode) && op.head.Version >= versionCurrentLeader {
		part.result.Leader = op.c.s.currentLeader(t.name, t.id, part.Index)
	}
	op.urgent = true
	if part.partition != nil && part.result.ErrorCode == kerr.UnknownServerError.Code {
		op.c.s.log.Error("cannot read", "partition", part.partition.TopicPartition(),
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
