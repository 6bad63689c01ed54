package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// conn is one client connection. Its reader goroutine owns every field that is not a queue.
type conn struct {
	s *Server
	// raw is the socket or in-memory pipe.
	raw net.Conn
	// host is the peer's address without its port.
	host string
	// inMemory tells that the client is in this process.
	inMemory bool
	// in cuts the input into frames.
	in frameReader
	// gate is closed while the client has to wait for its quotas.
	gate muteGate
	// out queues the answers.
	out answerQueue
	// closeAfter is how long a connection that is refused stays open; 0 closes it at once.
	closeAfter time.Duration
	// valid tells that a request was understood; before that the client gets little memory.
	valid bool
	// bulk tells that the last fetch found much: the next one may read a cold disk.
	bulk bool
	// clientID is the last client id seen, kept so that it is copied once.
	clientID string
	// how is how the listener takes its clients, client who this one is, once handshake has run.
	how    *Listener
	client client
	// login is the SASL state; nil where nobody logs in.
	login *login
	// loginTimer closes the connection unless the client has logged in by then; nil where none has
	// to.
	loginTimer *time.Timer
	// frameBytes is the size of the frame that is being handled, its length field included.
	frameBytes int
	// began is when work on a request began that answerNow answers, 0 if that is just now.
	began int64
	// ctx ends when the connection closes.
	ctx    context.Context
	cancel context.CancelFunc

	closeOnce sync.Once
	// draining tells the reader to take no further request.
	draining atomic.Bool
	// reason is why the connection was closed by this side.
	reason atomic.Pointer[error]
}

func (s *Server) newConn(ctx context.Context, raw net.Conn, how *Listener) *conn {
	if how.TLS != nil {
		raw = tls.Server(raw, how.TLS)
	}
	c := &conn{s: s, raw: raw, inMemory: raw.RemoteAddr().Network() != "tcp", how: how}
	if how.SASL != nil {
		c.login = &login{sasl: how.SASL}
	}
	c.host = raw.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(c.host); err == nil {
		c.host = host
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.gate.muted = &s.muted
	limits := &s.opts.Limits
	c.in = frameReader{
		conn: raw, readers: s.readers, memory: s.memory, huge: s.huge, limitOf: c.limitOf,
		idle: limits.IdleTimeout, step: limits.StepTimeout, stop: &c.draining, least: minFrameBytes,
		gate: &c.gate, senders: &s.senders, tooSlow: c.close,
	}
	c.out.w = &answerWriter{
		conn: raw, step: limits.StepTimeout, written: s.count.sent, files: canSendfile(raw),
	}
	c.out.broken = c.close
	c.out.writers = &s.writers
	c.out.mu.notFull = sync.NewCond(&c.out.mu)
	return c
}

// canSendfile tells whether the kernel can copy a file to raw.
func canSendfile(raw net.Conn) bool {
	_, ok := raw.(*net.TCPConn)
	return ok && runtime.GOOS == "linux"
}

// limitOf is Limits.frame, with less for a connection of which nothing was understood yet. A large
// Produce may come first: clients that know the versions do not ask on each connection.
func (c *conn) limitOf(key int16) (limit, cost int) {
	limit, cost = c.s.opts.Limits.frame(key)
	if !c.valid && key != protocol.KeyProduce {
		limit = min(limit, c.s.opts.Limits.FirstRequestBytes)
	}
	return limit, cost
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	if c.how.TLS != nil || c.login != nil {
		c.loginTimer = time.AfterFunc(c.s.opts.Limits.LoginTimeout, func() { c.close(errLoginTimeout) })
		defer c.loginTimer.Stop()
	}
	c.s.senders.add(&c.in)
	err := c.handshake()
	if err == nil {
		if c.loginTimer != nil && c.login == nil {
			c.loginTimer.Stop()
		}
		err = c.read()
	}
	c.in.close()
	if c.draining.Load() && err == nil {
		c.out.cancelParked()
		select {
		case <-c.out.drained():
		case <-c.ctx.Done():
		}
	}
	c.close(err)
	c.logEnd()
}

// read takes requests one after the other. A nil error means that the client left, or that the
// connection drains.
func (c *conn) read() error {
	for {
		if !c.in.buffered() {
			c.out.flush()
		}
		if c.draining.Load() {
			return nil
		}
		buffer := readBufferBytes
		if !c.valid {
			buffer = firstBufferBytes
		}
		frame, err := c.in.next(c.ctx, c.loginLimit(c.s.opts.Limits.RequestBytes), buffer)
		if err != nil {
			if c.readAgain(err) {
				continue
			}
			if c.draining.Load() || errors.Is(err, io.EOF) || c.ctx.Err() != nil {
				return nil
			}
			if isTimeout(err) && !errors.Is(err, errSlowClient) {
				return errIdle
			}
			return err
		}
		c.frameBytes = len(frame) + 4
		c.s.count.received(c.frameBytes)
		if err := c.dispatch(frame); err != nil {
			return err
		}
	}
}

// readAgain reports whether err is the idle limit of a client that waits for an answer, or reads
// one: a large one may take it longer than that.
func (c *conn) readAgain(err error) bool {
	return isTimeout(err) && !errors.Is(err, errSlowClient) && !c.draining.Load() &&
		(c.out.pending() || c.gate.left() > 0)
}

// dispatch handles one frame. An error closes the connection.
func (c *conn) dispatch(frame []byte) (err error) {
	if c.login != nil && c.login.raw {
		return c.rawToken(frame)
	}
	head, body, err := protocol.ParseHeader(frame, c.s.flexible)
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = c.panicked(head, p)
		}
	}()
	h, ok := c.s.table.find(head.Key)
	if !ok || head.Version < h.served || head.Version > h.max {
		if head.Key != protocol.KeyApiVersions || head.Version < 0 {
			return fmt.Errorf("api key %d version %d: %w",
				head.Key, head.Version, protocol.ErrUnsupported)
		}
		// KIP-511: answered in version 0, so that the client can choose again.
		c.valid = true
		return c.answerNow(head, false, unsupportedApiVersions(h))
	}
	if c.login != nil {
		if err := c.login.allowed(head.Key); err != nil {
			return err
		}
	}
	switch head.Key {
	case protocol.KeySaslHandshake:
		c.began = clock()
		return c.saslHandshake(head, body)
	case protocol.KeySaslAuthenticate:
		c.began = clock()
		return c.saslAuthenticate(head, body)
	case protocol.KeyProduce:
		err = c.produce(head, body)
	case protocol.KeyFetch:
		err = c.fetch(head, body)
	default:
		err = c.control(h, head, body)
	}
	if err == nil {
		c.valid = true
	}
	return err
}

// panicked reports a handler that failed in a way that it must not.
func (c *conn) panicked(head protocol.Header, p any) error {
	c.s.count.panics.Add(1)
	c.s.log.Error("request handler panicked; closing the connection",
		"api", protocol.KeyName(head.Key), "version", head.Version, "client", c.host,
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return fmt.Errorf("handle %s v%d: panic", protocol.KeyName(head.Key), head.Version)
}

// control handles a request that is answered before the next one is read.
func (c *conn) control(h handler, head protocol.Header, body []byte) error {
	clientID := c.internClientID(head.ClientID)
	span := c.startSpan(head.Key)
	// kmsg aliases bytes: the copy lets handlers keep them and the buffer go.
	body = append(make([]byte, 0, len(body)), body...)
	c.in.drained()
	message, err := protocol.DecodeRequest(head.Key, head.Version, body)
	if err != nil {
		return err
	}
	slot := c.out.begin()
	if slot == nil {
		return net.ErrClosed
	}
	c.out.flush()
	if h.waits {
		defer c.in.watch(c.cancel)()
	}
	built, waited, err := c.s.answers.build(c.ctx, message)
	if err != nil {
		return err
	}
	defer built()
	if span.queued = slot.queued + waited; h.waits {
		span.parked = clock()
	}
	r := &request{
		message: message, version: head.Version, clientID: clientID,
		clientHost: c.host, inMemory: c.inMemory, client: &c.client,
	}
	handling := clock()
	resp, err := c.s.guarded(c.ctx, &h, r)
	if err != nil {
		c.out.finish(slot, answer{err: err}, true)
		return fmt.Errorf("handle %s v%d: %w", protocol.KeyName(head.Key), head.Version, err)
	}
	c.s.auditRequest(&request{message: message, clientHost: c.host, client: &c.client}, resp)
	resp.SetVersion(head.Version)
	c.throttleAnswer(r, head.Key, resp, span.start+span.queued, clock()-handling)
	span.api.countErrors(resp)
	a := c.frame(head, resp.IsFlexible(), resp)
	a.ended = span.end(len(*a.bytes))
	a.ended.judge(c, &span, head.Key, head.Version, h.waits, func() int { return topicCount(message) })
	c.out.finish(slot, c.s.answers.admit(a), true)
	return nil
}

// encoder is a response body.
type encoder interface{ AppendTo(dst []byte) []byte }

// frame encodes a response.
func (c *conn) frame(head protocol.Header, flexible bool, body encoder) answer {
	buf := takeBuffer(firstBufferBytes)
	b := protocol.AppendResponseHeader((*buf)[:0], head.Key, head.CorrelationID, flexible)
	b = body.AppendTo(b)
	protocol.FinishFrame(b, 0, 0)
	*buf = b
	return answer{bytes: buf}
}

// answerNow queues an answer made on the spot.
func (c *conn) answerNow(head protocol.Header, flexible bool, body kmsg.Response) error {
	slot := c.out.begin()
	if slot == nil {
		return net.ErrClosed
	}
	span := c.startSpan(head.Key)
	if c.began != 0 {
		span.start, c.began = c.began, 0
	}
	span.api.countErrors(body)
	a := c.frame(head, flexible, body)
	a.ended = span.end(len(*a.bytes))
	c.out.finish(slot, a, true)
	return nil
}

// internClientID returns id as a string, copied only when it changes.
func (c *conn) internClientID(id []byte) string {
	if c.clientID != string(id) {
		c.clientID = string(id)
	}
	return c.clientID
}

// drain lets the requests that were read be answered, takes no further ones and then closes.
func (c *conn) drain() {
	c.draining.Store(true)
	c.gate.end()
	_ = c.raw.SetReadDeadline(past)
	c.out.cancelParked()
}

// close ends the connection; it may be called by anyone, several times. A nil error is a normal
// end.
func (c *conn) close(err error) {
	c.closeOnce.Do(func() {
		if err != nil {
			c.reason.Store(&err)
		}
		c.cancel()
		_ = c.raw.Close()
		c.out.close()
	})
}

// vanished tells that the client went away without taking its answers, as one that ends does.
func vanished(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// logEnd says why this side closed the connection, unless that is the client's normal doing.
func (c *conn) logEnd() {
	reason := c.reason.Load()
	if reason == nil || errors.Is(*reason, net.ErrClosed) || vanished(*reason) {
		return
	}
	if errors.Is(*reason, errIdle) {
		c.s.log.Debug("closed an idle connection", "client", c.host, "client_id", c.clientID,
			"listener", c.how.Name, "after", c.s.opts.Limits.IdleTimeout)
		return
	}
	c.s.count.broken.Add(1)
	if c.s.complaints.allow() {
		c.s.log.Warn("closed a connection", "client", c.host, "client_id", c.clientID,
			"listener", c.how.Name, "principal", c.client.Principal, "reason", (*reason).Error())
	}
}
