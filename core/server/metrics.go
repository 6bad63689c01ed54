package server

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/quota"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
)

// apiCounts are the requests of one API.
type apiCounts struct {
	// total is the time from the last byte of a request to the last byte of its answer, local the
	// part in which the broker worked on it, response from there until the answer was written.
	total, local, response metrics.Histogram
	// queue and wait count only requests that had to wait: for their turn, and for other clients, new
	// records or a sync.
	queue, wait metrics.Histogram
	// bytesIn and bytesOut are those of frames, log bytes included.
	bytesIn, bytesOut atomic.Int64
	// errors counts by code, made at the first one.
	errors atomic.Pointer[errorCounts]
}

// errorCounts counts error codes, [-1, len-1).
type errorCounts [160]atomic.Int64

// failed counts an error of an answer; there may be several in one.
func (a *apiCounts) failed(code int16) {
	if code == 0 {
		return
	}
	counts := a.errors.Load()
	if counts == nil {
		counts = new(errorCounts)
		if !a.errors.CompareAndSwap(nil, counts) {
			counts = a.errors.Load()
		}
	}
	i := int(code) + 1
	if i < 0 || i >= len(counts) {
		i = 0 // counts as UNKNOWN_SERVER_ERROR
	}
	counts[i].Add(1)
}

// codeName is the protocol's name of an error code.
func codeName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return "UNKNOWN_SERVER_ERROR"
}

// counts are the server's counters. They are plain atomics, found without a map, so that counting
// costs next to nothing on the hot paths.
type counts struct {
	// api has the row of each served key, nil for others.
	api [maxKey + 1]*apiCounts
	// bytesIn and bytesOut are all bytes exchanged with clients.
	bytesIn, bytesOut atomic.Int64
	// broken are connections that were closed for a client's fault.
	broken atomic.Int64
	// logins and badLogins are those that were taken and refused.
	logins, badLogins atomic.Int64
	// denied are the accesses that rules did not allow.
	denied atomic.Int64
	panics atomic.Int64
	// parkedProduces and parkedFetches are the requests that wait now.
	parkedProduces, parkedFetches atomic.Int64
	// traffic is that of all topics, deleted ones too.
	traffic replica.Traffic
	// slow are the requests over the threshold of the log.
	slow atomic.Int64
}

// newCounts makes the counters of some handlers.
func newCounts(table *handlerTable) *counts {
	c := new(counts)
	for i := range table.rows {
		c.api[table.rows[i].key] = new(apiCounts)
	}
	return c
}

// makeCounts makes what counts requests and connections.
func (s *Server) makeCounts() {
	s.count = newCounts(s.table)
	s.quotas = quota.NewManager(s.opts.Quotas)
	s.mu.open, s.mu.byIP = make(map[*conn]struct{}), make(map[string]int)
	s.mu.listenerCounts, s.mu.refused = make(map[string]*listenerCounts), make(map[string]int64)
}

func (c *counts) received(n int) { c.bytesIn.Add(int64(n)) }
func (c *counts) sent(n int)     { c.bytesOut.Add(int64(n)) }

// clockBase makes clock's numbers small.
var clockBase = time.Now()

// clock is a monotonic time in nanoseconds, for differences only. It costs less than time.Now.
func clock() int64 { return int64(time.Since(clockBase)) }

// span follows one request; the zero value counts nothing.
type span struct {
	api *apiCounts
	// start is when the request was there, parked when it began to wait for others, 0 if it did
	// not. Both are clock's.
	start, parked int64
	// queued is how long it waited for its turn, in nanoseconds.
	queued int64
	// bytes is the size of the request's frame.
	bytes int
	// clientID is whose request it is.
	clientID string
}

// startSpan begins with the frame that the reader has just read.
func (c *conn) startSpan(key int16) span {
	api := c.s.count.api[key]
	api.bytesIn.Add(int64(c.frameBytes))
	return span{api: api, start: clock(), bytes: c.frameBytes, clientID: c.clientID}
}

// ended is a request whose answer is complete, on its way to the client.
type ended struct {
	api *apiCounts // nil counts nothing
	// start and finished are when the request was there, and when its answer was.
	start, finished int64
	// bytes is the size of the answer's frame.
	bytes int
	// slow is what the log says if the request took long.
	slow *slowRequest
}

// end counts what the broker did for the request, whose answer takes so many bytes.
func (s *span) end(bytes int) ended {
	if s.api == nil {
		return ended{}
	}
	now := clock()
	decided := now
	if s.parked != 0 {
		decided = s.parked
		s.api.wait.Observe(time.Duration(now - s.parked))
	}
	if s.queued != 0 {
		s.api.queue.Observe(time.Duration(s.queued))
	}
	s.api.local.Observe(time.Duration(decided - s.start - s.queued))
	return ended{api: s.api, start: s.start, finished: now, bytes: bytes}
}

// written counts an answer whose last byte has been written.
func (e *ended) written(now int64) {
	if e.api == nil {
		return
	}
	e.api.response.Observe(time.Duration(now - e.finished))
	e.api.total.Observe(time.Duration(now - e.start))
	e.api.bytesOut.Add(int64(e.bytes))
	if e.slow != nil {
		e.slow.report(time.Duration(now-e.finished), e.bytes)
	}
}

// appended counts a partition's records that were taken.
func (c *counts) appended(p *replica.Partition, bytes int, r *storage.AppendResult) {
	c.traffic.Produces.Add(1)
	topic := p.Traffic()
	topic.Produces.Add(1)
	if r.Duplicate {
		return // they are in the log, and counted, already
	}
	c.traffic.BytesIn.Add(int64(bytes))
	topic.BytesIn.Add(int64(bytes))
	records := r.LastOffset - r.BaseOffset + 1
	c.traffic.RecordsIn.Add(records)
	topic.RecordsIn.Add(records)
}

// notAppended counts a partition's records that were refused; p is nil if there is none.
func (c *counts) notAppended(p *replica.Partition) {
	c.traffic.Produces.Add(1)
	c.traffic.FailedProduces.Add(1)
	if p != nil {
		p.Traffic().Produces.Add(1)
		p.Traffic().FailedProduces.Add(1)
	}
}

// fetched counts a partition of an answer.
func (c *counts) fetched(part *fetchPart) {
	n, failed := int64(part.result.RecordBytes), part.result.ErrorCode != 0
	c.traffic.Fetches.Add(1)
	c.traffic.BytesOut.Add(n)
	if failed {
		c.traffic.FailedFetches.Add(1)
	}
	if part.partition == nil {
		return
	}
	topic := part.partition.Traffic()
	topic.Fetches.Add(1)
	topic.BytesOut.Add(n)
	if failed {
		topic.FailedFetches.Add(1)
	}
}
