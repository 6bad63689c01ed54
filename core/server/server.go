package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/quota"
)

// Limits bounds what clients can make the server hold. The zero value takes the defaults.
type Limits struct {
	// RequestBytes bounds a request, Kafka's socket.request.max.bytes. Default 100 MiB.
	RequestBytes int
	// ControlRequestBytes bounds a request other than Produce, whose decoded form can take many
	// times its bytes. Default 8 MiB.
	ControlRequestBytes int
	// FirstRequestBytes bounds a connection's requests, but for Produce, until one was understood.
	// Default 64 KiB.
	FirstRequestBytes int
	// MemoryBytes bounds the large requests in flight of all connections, half of it what is beyond
	// 16 MiB of each, and as much again their read buffers. Default 256 MiB, but at most a quarter
	// of the process's memory limit (GOMEMLIMIT).
	MemoryBytes int64
	// AnswerBytes bounds the large answers that are not written yet. Default as MemoryBytes.
	AnswerBytes int64
	// Connections bounds the connections, Kafka's max.connections. Default 16384.
	Connections int
	// IdleTimeout closes a connection without requests, Kafka's connections.max.idle.ms.
	// Default 10 minutes.
	IdleTimeout time.Duration
	// StepTimeout bounds the wait for the next part of a request that has begun, and for a
	// client to accept the next part of an answer. Default 30 seconds.
	StepTimeout time.Duration
	// LoginTimeout bounds the time from a connection's start to the end of its TLS handshake and
	// login. Default 5 seconds.
	LoginTimeout time.Duration
	// FetchBytes bounds a Fetch answer, Kafka's fetch.max.bytes. Default 55 MiB.
	FetchBytes int
	// FetchSessions bounds the fetch sessions, Kafka's
	// max.incremental.fetch.session.cache.slots. Default 1000, negative for none.
	FetchSessions int
}

// leastMemory is the least default of Limits.MemoryBytes, in bytes.
const leastMemory = 4 << 20

func (l *Limits) withDefaults() {
	set(&l.RequestBytes, 100<<20)
	set(&l.ControlRequestBytes, 8<<20)
	set(&l.FirstRequestBytes, 64<<10)
	part := min(256<<20, max(debug.SetMemoryLimit(-1)/4, leastMemory))
	set(&l.MemoryBytes, part)
	set(&l.AnswerBytes, part)
	set(&l.Connections, 16384)
	set(&l.IdleTimeout, 10*time.Minute)
	set(&l.StepTimeout, 30*time.Second)
	set(&l.LoginTimeout, 5*time.Second)
	set(&l.FetchBytes, 57671680)
}

// set gives v a default.
func set[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// decodedFactor is how many times its bytes a request other than Produce may take when decoded: the
// worst one, of nothing but unknown tags, has 40 times as much allocated, half of it garbage.
const decodedFactor = 20

// frame tells how large a frame of an api key may be, and what a byte of it costs.
func (l *Limits) frame(key int16) (limit, cost int) {
	if key == protocol.KeyProduce {
		return l.RequestBytes, 1
	}
	return min(l.ControlRequestBytes, l.RequestBytes), decodedFactor
}

// Server accepts Kafka clients and answers them.
type Server struct {
	opts Options
	log  *slog.Logger
	// nodeID is this broker's id.
	nodeID int32
	// table finds the handler of an api key.
	table *handlerTable
	// readers and memory bound what connections hold; see frameReader.
	readers, memory, huge *budget
	// senders are the connections that may hold some of those.
	senders senders
	// answers bounds what answers take.
	answers answerMemory
	count   *counts
	// slow says which requests took long.
	slow slowLog
	// quotas measures clients against their quotas, muted counts connections that wait for theirs.
	quotas *quota.Manager
	muted  atomic.Int64
	// refusedOpen counts connections that are refused and not yet closed.
	refusedOpen atomic.Int64
	// sessions are the fetch sessions of all clients.
	sessions *fetchSessionCache
	// complaints limits log lines about misbehaving clients.
	complaints limiter
	// denials and logins limit the lines of the audit log that anybody can cause.
	denials, logins limiter
	// refusedChanges limits those about what changed nothing.
	refusedChanges limiter
	// failures are the logins that were refused of late.
	failures loginFailures
	// refusals limits log lines about records the broker could not take.
	refusals limiter

	// fetchOps and produceOps are reused. Each server has its own, since they have timers, which
	// belong to the clock of the test that made them.
	fetchOps, produceOps sync.Pool

	// conns waits for the readers, waits for the requests that are parked, writers for the
	// goroutines that write answers. Readers park requests, both start writers: so Close waits
	// in this order.
	conns, waits, writers sync.WaitGroup

	// connectionLimits are the limits that can change; nil until SetConnectionLimits.
	connectionLimits atomic.Pointer[ConnectionLimits]
	// pace holds up new connections that come too fast.
	pace pace

	mu struct {
		sync.Mutex
		// open are the connections being served.
		open map[*conn]struct{}
		// byIP counts them by the peer's address.
		byIP map[string]int
		// listenerCounts are the connections by the name of their listener, refused those that a
		// limit kept out, by its name.
		listenerCounts map[string]*listenerCounts
		refused        map[string]int64
		// listeners are closed by Close.
		listeners []net.Listener
		closed    bool
	}
}

// ErrClosed is returned by Serve after Close.
var ErrClosed = errors.New("server closed")

// New makes a server; it touches no socket.
func New(opts Options) (*Server, error) {
	opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("new server: %w", err)
	}
	s := &Server{
		opts: opts, log: opts.Logger, nodeID: opts.NodeID,
		table: newHandlerTable(handlers), answers: newAnswerMemory(opts.Limits.AnswerBytes),
	}
	s.makeBudgets(opts.Limits.MemoryBytes)
	s.sessions = newFetchSessionCache(opts.Limits.FetchSessions, fetchSessionMemory)
	s.makeCounts()
	return s, nil
}

// Serve accepts connections from l until Close, or until accepting fails for good. It returns
// ErrClosed after Close.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.ServeListener(ctx, l, plaintext)
}

// ServeListener is Serve for clients that are taken as how says.
func (s *Server) ServeListener(ctx context.Context, l net.Listener, how *Listener) error {
	how.withDefaults(&s.opts.Limits)
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.mu.listeners = append(s.mu.listeners, l)
	s.mu.Unlock()
	pause := time.Duration(0)
	for {
		raw, err := l.Accept()
		if err != nil {
			if s.isClosed() {
				return ErrClosed
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept on %s: %w", l.Addr(), err)
			}
			// Out of file descriptors, most likely: that passes.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Error("cannot accept a connection", "address", l.Addr().String(),
				"error", err.Error(), "retry_in", pause)
			if !wait(ctx, pause) {
				return ctx.Err()
			}
			continue
		}
		pause = 0
		if l := s.connectionLimits.Load(); l != nil && !s.pace.await(ctx, l.PerSecond) {
			_ = raw.Close() // nobody waits for the answer any more
			continue
		}
		s.serveConn(ctx, raw, how)
	}
}

// wait reports whether span has passed before ctx ended.
func wait(ctx context.Context, span time.Duration) bool {
	t := time.NewTimer(span)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// serveConn serves one connection on a goroutine of its own, and closes it in the end.
func (s *Server) serveConn(ctx context.Context, raw net.Conn, how *Listener) {
	c := s.newConn(ctx, raw, how)
	s.mu.Lock()
	refusedBy := s.admitLocked(c)
	s.countAdmissionLocked(c, refusedBy)
	s.mu.Unlock()
	if refusedBy != "" {
		s.refuse(c, refusedBy)
		return
	}
	go func() {
		defer s.conns.Done()
		c.serve()
		s.releaseConn(c)
	}()
}

// Close stops accepting, lets the requests that were read be answered until ctx ends, and closes
// every connection. It returns when all goroutines of the server have ended.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.mu.closed = true
	listeners := s.mu.listeners
	s.mu.listeners = nil
	open := make([]*conn, 0, len(s.mu.open))
	for c := range s.mu.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	var errs []error
	for _, l := range listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close listener %s: %w", l.Addr(), err))
		}
	}
	for _, c := range open {
		c.drain()
	}
	done := make(chan struct{})
	go func() {
		s.conns.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		for _, c := range open {
			c.close(nil)
		}
		<-done
	}
	s.waits.Wait()
	s.writers.Wait()
	return errors.Join(errs...)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closed
}

// limiter lets a few events a second through, so that a flood of bad clients is not a flood of
// log lines.
type limiter struct {
	mu struct {
		sync.Mutex
		second int64
		count  int
	}
}

// complaintsPerSecond bounds the log lines about misbehaving clients.
const complaintsPerSecond = 5

func (l *limiter) allow() bool {
	now := time.Now().Unix()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.second != now {
		l.mu.second, l.mu.count = now, 0
	}
	l.mu.count++
	return l.mu.count <= complaintsPerSecond
}
