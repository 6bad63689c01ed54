package server

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// slowLog says which requests took long, a few a second.
type slowLog struct {
	// threshold is how long a request may take, in nanoseconds; 0 or less logs none.
	threshold atomic.Int64
	// lines limits the log, suppressed counts what it left out since the last line.
	lines      limiter
	suppressed atomic.Int64
}

// SetSlowRequests has requests logged that took longer; 0 logs none. Time in which a request waited
// for other clients or for new records does not count, nor that in which its client did not take
// the answer.
func (s *Server) SetSlowRequests(threshold time.Duration) {
	s.slow.threshold.Store(int64(threshold))
}

// slowRequest is one line of the log.
type slowRequest struct {
	c *conn
	// clientID is that of the request: the connection's may be another one by now.
	clientID string
	key      int16
	version  int16
	bytes    int // of the request
	topics   int
	// queue, local and wait are the parts of the time until the answer was complete.
	queue, local, wait time.Duration
}

// judge notes that a request is to be logged, if it is. longPoll tells that its wait is not the
// broker's doing. topics counts the topics that it names, when it is asked.
func (e *ended) judge(c *conn, s *span, key, version int16, longPoll bool, topics func() int) {
	threshold := c.s.slow.threshold.Load()
	if threshold <= 0 || e.api == nil || e.finished-e.start <= threshold {
		return
	}
	r := &slowRequest{c: c, clientID: s.clientID, key: key, version: version, bytes: s.bytes,
		topics: topics()}
	decided := e.finished
	if s.parked != 0 {
		decided = s.parked
		r.wait = time.Duration(e.finished - s.parked)
	}
	r.queue = time.Duration(s.queued)
	r.local = time.Duration(decided - s.start - s.queued)
	took := r.queue + r.local
	if !longPoll {
		took += r.wait
	}
	if int64(took) > threshold {
		c.s.count.slow.Add(1)
		e.slow = r
	}
}

// report writes the line; response is how long the answer took to be written.
func (r *slowRequest) report(response time.Duration, answerBytes int) {
	log := &r.c.s.slow
	if !log.lines.allow() {
		log.suppressed.Add(1)
		return
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	r.c.s.log.Warn("slow request", "api", protocol.KeyName(r.key), "version", r.version,
		"client_id", r.clientID, "principal", r.c.client.Principal, "client", r.c.host,
		"listener", r.c.how.Name, "total_ms", ms(r.queue+r.local+r.wait+response),
		"queue_ms", ms(r.queue), "local_ms", ms(r.local), "wait_ms", ms(r.wait),
		"response_ms", ms(response), "request_bytes", r.bytes, "response_bytes", answerBytes,
		"topics", r.topics, "suppressed", log.suppressed.Swap(0))
}

// topicCount counts the topics that a request names.
func topicCount(message kmsg.Request) int {
	topics := reflect.ValueOf(message).Elem().FieldByName("Topics")
	if topics.Kind() != reflect.Slice {
		return 0
	}
	return topics.Len()
}
