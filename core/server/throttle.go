package server

import (
	"context"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/quota"
)

// Quotas of clients (KIP-219). A request over the quota is answered at once, with the time for
// which the client is to leave the broker alone, and so long nothing more is read of its
// connection, old clients or not.
//
//   - Produce counts the bytes of the request, Fetch those of the answer; an answer over the quota
//     is given without records, and does not count.
//   - Every request counts the time that the broker itself has worked on it; what coordinators, the
//     controller or the disk do for it counts for nobody.
//   - Clients in this process have no quota.
//   - A connection that is muted holds no memory: the requests in its read buffer are handled, the
//     last one is read to its end and nothing beyond.

// SetQuotas puts client quotas in force.
func (s *Server) SetQuotas(q *metadata.ClientQuotas) { s.quotas.SetQuotas(q) }

// bound tells whether a quota of a kind may bind this client.
func (c *conn) bound(kind quota.Kind) bool {
	return c.s.quotas.Enabled(kind) && !c.inMemory && !c.client.trusted
}

// user is the name that quotas go by.
func (c *client) user() string {
	_, name, _ := strings.Cut(c.Principal, ":")
	return name
}

// percentOfSecond is d as a request quota counts it.
func percentOfSecond(nanos int64) float64 { return float64(nanos) * 100 / float64(time.Second) }

// chargeRequest counts the time that the broker worked on a request.
func (c *conn) chargeRequest(clientID string, nanos int64) time.Duration {
	if !c.bound(quota.Request) {
		return 0
	}
	return c.s.quotas.Record(quota.Request, c.client.user(), clientID, percentOfSecond(nanos))
}

// chargeProduce counts a Produce request whose records were appended, and mutes the connection. The
// time of one without an answer does not count, as in Kafka.
func (c *conn) chargeProduce(op *produceOp) {
	wait := time.Duration(0)
	if c.bound(quota.Produce) {
		wait = c.s.quotas.Record(quota.Produce, c.client.user(), c.clientID, float64(op.span.bytes-4))
	}
	if op.req.Acks != acksNone && c.bound(quota.Request) {
		wait = max(wait, c.chargeRequest(c.clientID, clock()-op.span.start-op.span.queued))
	}
	op.throttle = wait
	c.gate.mute(wait)
}

// chargeFetch counts a Fetch answer of so many bytes that is about to be given. With a wait it is
// not to be, and has not counted.
func (c *conn) chargeFetch(op *fetchOp, bytes int) (wait time.Duration) {
	user, id := op.user, op.span.clientID
	if c.bound(quota.Request) {
		wait = c.s.quotas.Record(quota.Request, user, id, percentOfSecond(op.worked))
	}
	if c.bound(quota.Fetch) {
		wait = max(wait, c.s.quotas.Record(quota.Fetch, user, id, float64(bytes)))
		if wait > 0 {
			c.s.quotas.Unrecord(quota.Fetch, user, id, float64(bytes))
		}
	}
	return wait
}

// mostFetched bounds the bytes of a Fetch answer by what the quota could ever let through.
func (c *conn) mostFetched(limit int) int {
	if !c.bound(quota.Fetch) {
		return limit
	}
	most, ok := c.s.quotas.Most(c.client.user(), c.clientID)
	if !ok || most >= float64(limit) {
		return limit
	}
	return int(most)
}

// workedOut tells of APIs whose handlers do the work themselves; those of the others wait for
// goroutines of the broker.
var workedOut = [maxKey + 1]bool{2: true, 3: true, 18: true, 23: true, 29: true, 32: true, 34: true,
	35: true, 46: true, 48: true, 50: true, 55: true, 60: true, 61: true, 74: true, 75: true}

// throttleAnswer counts a request that took so long to handle, tells the client in its answer for
// how long it has to wait, and mutes the connection.
func (c *conn) throttleAnswer(r *request, key int16, resp kmsg.Response, started, handled int64) {
	wait := r.throttle
	if c.bound(quota.Request) {
		worked := clock() - started
		if !workedOut[key] {
			worked -= handled
		}
		wait = max(wait, c.chargeRequest(r.clientID, worked))
	}
	if wait <= 0 {
		return
	}
	if t, ok := resp.(kmsg.SetThrottleResponse); ok {
		t.SetThrottle(throttleMillis(wait))
	}
	c.gate.mute(wait)
}

// throttleMillis is a wait as answers have it.
func throttleMillis(wait time.Duration) int32 {
	return int32(min(wait.Milliseconds(), math.MaxInt32))
}

// errMutations refuses changes of topics of a client that has used up its quota.
var errMutations = refuseRequest(kerr.ThrottlingQuotaExceeded,
	"The throttling quota has been exceeded.")

// mutate counts partitions that a request makes or removes (KIP-599). From version strict on it is
// an error to have none left; older clients have to wait.
func (s *Server) mutate(r *request, strict int16, partitions int) error {
	if partitions == 0 || r.inMemory || r.client.trusted || !s.quotas.Enabled(quota.Mutation) {
		return nil
	}
	allowed, wait := s.quotas.Mutate(r.client.user(), r.clientID, partitions, r.version >= strict)
	r.throttle = max(r.throttle, wait)
	if !allowed {
		return errMutations
	}
	return nil
}

// mutateNew is mutate for a topic that is to be made. One that exists is refused, not counted.
func (s *Server) mutateNew(
	r *request, strict int16, t *controller.CreateTopic,
) (counted int, err error) {
	if _, exists := s.image().Topic(t.Name); exists {
		return 0, nil
	}
	switch counted = len(t.Assignment); {
	case counted > 0:
	case t.Partitions == -1:
		counted = int(s.image().BrokerConfigInt("num.partitions", 1))
	default:
		counted = max(int(t.Partitions), 0)
	}
	if err := s.mutate(r, strict, counted); err != nil {
		return 0, err
	}
	return counted, nil
}

// mutateMore is mutate for a topic that is to have so many partitions.
func (s *Server) mutateMore(r *request, name string, partitions int) (counted int, err error) {
	t, ok := s.image().Topic(name)
	if !ok || partitions <= len(t.Partitions) {
		return 0, nil
	}
	if err := s.mutate(r, 3, partitions-len(t.Partitions)); err != nil {
		return 0, err
	}
	return partitions - len(t.Partitions), nil
}

// mutateGone is mutate for a topic that is to be removed.
func (s *Server) mutateGone(r *request, ref controller.TopicRef) error {
	t, ok := s.image().Topic(ref.Name)
	if ref.Name == "" {
		t, ok = s.image().TopicByID(ref.ID)
	}
	if !ok {
		return nil
	}
	return s.mutate(r, 5, len(t.Partitions))
}

// unmutate takes back what was counted for a change that was not made.
func (s *Server) unmutate(r *request, partitions int) {
	if partitions == 0 || r.inMemory || r.client.trusted || !s.quotas.Enabled(quota.Mutation) {
		return
	}
	s.quotas.Mutate(r.client.user(), r.clientID, -partitions, false)
}

// muteGate keeps the reader of a connection from taking requests for a time.
type muteGate struct {
	// until is when that ends, on clock; 0 where nothing is muted.
	until atomic.Int64
	// waiting is closed to end the wait of the reader early; nil where it does not wait.
	waiting atomic.Pointer[chan struct{}]
	// ended tells that nobody waits any more.
	ended atomic.Bool
	// muted counts the connections of the server that wait.
	muted *atomic.Int64
}

// mute begins a time, or makes the present one longer.
func (g *muteGate) mute(d time.Duration) {
	if d <= 0 {
		return
	}
	for until := clock() + int64(d); ; {
		old := g.until.Load()
		if old >= until || g.until.CompareAndSwap(old, until) {
			return
		}
	}
}

// closed tells that the reader is to stop after the request that it has begun to read.
func (g *muteGate) closed() bool { return g.until.Load() != 0 }

// left is how long the connection is muted yet.
func (g *muteGate) left() time.Duration {
	until := g.until.Load()
	if until == 0 {
		return 0
	}
	return time.Duration(max(until-clock(), 0))
}

// wait returns when the time is over. net.ErrClosed tells that the connection drains or closes.
func (g *muteGate) wait(ctx context.Context) error {
	if g.until.Load() == 0 {
		return nil
	}
	g.muted.Add(1)
	defer g.muted.Add(-1)
	wake := make(chan struct{})
	g.waiting.Store(&wake)
	defer g.waiting.Store(nil)
	for !g.ended.Load() {
		until := g.until.Load()
		left := time.Duration(until - clock())
		if left <= 0 {
			if g.until.CompareAndSwap(until, 0) {
				return nil
			}
			continue
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-wake:
			timer.Stop()
			return net.ErrClosed
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	return net.ErrClosed
}

// end ends a wait, and those to come.
func (g *muteGate) end() {
	g.ended.Store(true)
	if wake := g.waiting.Swap(nil); wake != nil {
		close(*wake)
	}
}
