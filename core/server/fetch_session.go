package server

import (
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/protocol"
)

// Fetch sessions (KIP-227). A client that names its partitions once gets a session, later names
// only those that change, and is told only of those in which something has. Requests of a session
// are numbered by epochs:
//
//	session id, epoch
//	      0, 0         begin a session; it has an id if the answer says so
//	     id, 0         the same, and end session id
//	      n, -1        no session; end session n, if n > 0
//	     id, e         incremental: e is one more than last time, 1 after 2^31-1
//
// What a session holds of a partition is what the last request said about it, and what the last
// answer said.

// Session epochs with a meaning of their own.
const (
	sessionEpochBegin int32 = 0
	sessionEpochNone  int32 = -1
	noSession         int32 = 0
)

// fetchSession is one session. id, byID and created are set before others see it.
type fetchSession struct {
	// id is what the client names it by, > 0.
	id int32
	// byID tells that its partitions are named by topic id (from version 13 on).
	byID bool
	// created is when it got its slot.
	created time.Time

	// cached belongs to the cache and is guarded by its lock.
	cached struct {
		// lastUsed is when the last request came.
		lastUsed time.Time
		// partitions and bytes are its size at that time.
		partitions int
		bytes      int64
		// older and newer are its neighbours by last use.
		older, newer *fetchSession
	}

	mu struct {
		sync.Mutex
		// epoch is the one that the next request must have.
		epoch int32
		parts map[sessionKey]*sessionPart
		// first and last are the ends of the list in which partitions are read: those that gave
		// records go to the end, so that the limits of a fetch starve none.
		first, last *sessionPart
		// bytes is about what parts takes.
		bytes int64
		// busy is the request that was begun last, until it is answered.
		busy *fetchOp
		// idle is signalled when busy becomes nil.
		idle *sync.Cond
	}
}

// sessionKey names a partition: by id, or by name with the zero id.
type sessionKey struct {
	id    uuid.UUID
	name  string
	index int32
}

// sessionPart is one partition of a session.
type sessionPart struct {
	key sessionKey
	// asked is what the client wants of it.
	asked protocol.FetchPartition
	// highWatermark, lastStable and logStart are what the client was told; -1 before that.
	highWatermark, lastStable, logStart int64
	prev, next                          *sessionPart
}

// sessionPartBytes is about what a partition takes in a session, without its name.
const sessionPartBytes = int64(unsafe.Sizeof(sessionPart{})+unsafe.Sizeof(sessionKey{})) + 128

func newFetchSession(byID bool) *fetchSession {
	s := &fetchSession{byID: byID}
	s.mu.epoch = 1
	s.mu.parts = make(map[sessionKey]*sessionPart)
	s.mu.idle = sync.NewCond(&s.mu)
	return s
}

// size returns the number of partitions and about the memory they take.
func (s *fetchSession) size() (partitions int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.parts), s.mu.bytes
}

// nextEpoch follows e.
func nextEpoch(e int32) int32 {
	if e == 1<<31-1 {
		return 1
	}
	return e + 1
}

// await returns when no earlier request of c is open in the session. A client that sends the next
// request before it has the answer gets that answer now, so that both are given in order.
func (s *fetchSession) await(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.mu.busy != nil && s.mu.busy.c == c {
		s.mu.busy.abandon()
		s.mu.idle.Wait()
	}
}

// begin takes an incremental request, and the partitions of the session into op. The error is a
// code for the whole answer.
func (s *fetchSession) begin(op *fetchOp, sessions *fetchSessionCache) int16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.epoch != op.req.SessionEpoch:
		return kerr.InvalidFetchSessionEpoch.Code
	case s.byID != (op.head.Version >= 13):
		return kerr.FetchSessionTopicIDError.Code
	}
	s.updateLocked(&op.req)
	if len(s.mu.parts) == 0 {
		sessions.remove(s.id)
		op.resolve() // as without a session
		return 0
	}
	if !sessions.touch(s, len(s.mu.parts), s.mu.bytes, time.Now()) {
		return kerr.FetchSessionIDNotFound.Code // it was too large: the client begins anew
	}
	s.mu.epoch = nextEpoch(s.mu.epoch)
	s.mu.busy = op
	op.session, op.sessionEpoch = s, s.mu.epoch
	op.takeSession(s.mu.first)
	return 0
}

// updateLocked follows what an incremental request changes.
func (s *fetchSession) updateLocked(req *protocol.FetchRequest) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := t.First; j < t.End; j++ {
			asked := &req.Partitions[j]
			if p := s.mu.parts[lookupKey(t.Name, t.ID, asked.Index)]; p != nil {
				p.asked = *asked
			} else {
				s.addLocked(strings.Clone(string(t.Name)), t.ID, asked)
			}
		}
	}
	for i := range req.Forgotten {
		t := &req.Forgotten[i]
		for _, index := range req.ForgottenPartitions[t.First:t.End] {
			if p := s.mu.parts[lookupKey(t.Name, t.ID, index)]; p != nil {
				s.dropLocked(p)
			}
		}
	}
}

// lookupKey is a key for a look-up only: its name aliases the frame.
func lookupKey(name []byte, id uuid.UUID, index int32) sessionKey {
	return sessionKey{id: id, name: alias(name), index: index}
}

// addLocked adds a partition that the session does not have.
func (s *fetchSession) addLocked(
	name string, id uuid.UUID, asked *protocol.FetchPartition,
) *sessionPart {
	p := &sessionPart{
		key:           sessionKey{id: id, name: name, index: asked.Index},
		asked:         *asked,
		highWatermark: -1, lastStable: -1, logStart: -1,
	}
	s.mu.parts[p.key] = p
	s.mu.bytes += sessionPartBytes + int64(len(name))
	s.pushLocked(p)
	return p
}

// dropLocked forgets a partition.
func (s *fetchSession) dropLocked(p *sessionPart) {
	delete(s.mu.parts, p.key)
	s.mu.bytes -= sessionPartBytes + int64(len(p.key.name))
	s.unlinkLocked(p)
}

// pushLocked puts p at the end of the list.
func (s *fetchSession) pushLocked(p *sessionPart) {
	p.prev = s.mu.last
	if s.mu.last != nil {
		s.mu.last.next = p
	} else {
		s.mu.first = p
	}
	s.mu.last = p
}

func (s *fetchSession) unlinkLocked(p *sessionPart) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		s.mu.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		s.mu.last = p.prev
	}
	p.prev, p.next = nil, nil
}

// leave ends a request that is answered without partitions. The error is that of settle.
func (s *fetchSession) leave(op *fetchOp) int16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaveLocked(op)
}

func (s *fetchSession) leaveLocked(op *fetchOp) int16 {
	if s.mu.busy == op {
		s.mu.busy = nil
		s.mu.idle.Broadcast()
	}
	if s.mu.epoch != op.sessionEpoch {
		return kerr.InvalidFetchSessionEpoch.Code
	}
	return 0
}

// settle says which partitions of op go into its answer: those with records, an error or a
// divergence, and those of which the client does not know an offset. A request that was overtaken
// by another one of the session gets an error code for the whole answer.
func (s *fetchSession) settle(op *fetchOp) int16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code := s.leaveLocked(op); code != 0 {
		return code
	}
	for i := range op.topics {
		t := &op.topics[i]
		for j := t.first; j < t.end; j++ {
			part := &op.parts[j]
			part.omit = !part.cached.tell(&part.result)
			if part.omit {
				t.omitted++
			} else if part.result.RecordBytes > 0 {
				s.unlinkLocked(part.cached)
				s.pushLocked(part.cached)
			}
		}
	}
	return 0
}

// tell notes what the client is told. It reports whether there is anything it does not know.
func (p *sessionPart) tell(r *protocol.FetchResult) bool {
	news := r.RecordBytes > 0 || r.ErrorCode != 0 || r.Diverging != nil ||
		r.HighWatermark != p.highWatermark || r.LastStableOffset != p.lastStable ||
		r.LogStartOffset != p.logStart
	p.highWatermark, p.lastStable, p.logStart =
		r.HighWatermark, r.LastStableOffset, r.LogStartOffset
	if r.ErrorCode != 0 {
		p.highWatermark = -1 // so that it is told when the error is over
	}
	return news
}

// openSession finds out which partitions a request means. The error is a code for the whole
// answer.
func (op *fetchOp) openSession() int16 {
	sessions, req := op.c.s.sessions, &op.req
	if req.SessionEpoch == sessionEpochBegin || req.SessionEpoch == sessionEpochNone {
		if req.SessionID != noSession {
			sessions.remove(req.SessionID)
		}
		op.create = req.SessionEpoch == sessionEpochBegin
		op.resolve()
		return 0
	}
	s := sessions.find(req.SessionID)
	if s == nil {
		return kerr.FetchSessionIDNotFound.Code
	}
	return s.begin(op, sessions)
}

// closeSession settles with the session what the answer says. It returns the session id of the
// answer, and a code for all of it.
func (op *fetchOp) closeSession() (id int32, code int16) {
	switch {
	case op.session != nil:
		return op.session.id, op.session.settle(op)
	case op.create:
		return op.createSession(), 0
	}
	return noSession, 0
}

// createSession makes a session of the partitions of op, if there is room for it.
func (op *fetchOp) createSession() int32 {
	s := newFetchSession(op.head.Version >= 13)
	s.mu.Lock()
	for i := range op.topics {
		t := &op.topics[i]
		for j := t.first; j < t.end; j++ {
			part := &op.parts[j]
			name := t.name
			if s.byID {
				name = "" // found out of the id; its key is the id
			}
			p := s.mu.parts[sessionKey{t.id, name, part.Index}]
			if p == nil {
				p = s.addLocked(name, t.id, &part.FetchPartition)
			}
			p.asked = part.FetchPartition // of one named twice the last one counts
			p.tell(&part.result)
		}
	}
	s.mu.Unlock()
	if !op.c.s.sessions.add(s, time.Now()) {
		return noSession
	}
	return s.id
}
