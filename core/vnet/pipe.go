package vnet

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
)

const (
	// firstPort is the first port given out for port 0, as the kernel's ephemeral range.
	firstPort = 32768
	// maxBacklog bounds the connections of a listener that nobody has accepted.
	maxBacklog = 1024
)

// Pipe is a network inside the process.
type Pipe struct {
	mu struct {
		sync.Mutex
		listeners map[string]*pipeListener // by address
		nextPort  int
	}
}

var _ Network = (*Pipe)(nil)

// NewPipe returns a network without listeners.
func NewPipe() *Pipe {
	p := &Pipe{}
	p.mu.listeners = make(map[string]*pipeListener)
	p.mu.nextPort = firstPort
	return p
}

// Addr is an address on a Pipe.
type Addr string

// Network returns "pipe".
func (Addr) Network() string { return "pipe" }

// String returns host:port.
func (a Addr) String() string { return string(a) }

// Listen takes an address. The error is EADDRINUSE in a *net.OpError if it is taken.
func (p *Pipe) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError("listen", addr, err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, opError("listen", addr, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if port == "0" {
		addr = p.freeAddrLocked(host)
	}
	if p.mu.listeners[addr] != nil {
		return nil, opError("listen", addr, syscall.EADDRINUSE)
	}
	l := &pipeListener{pipe: p, addr: Addr(addr)}
	l.mu.arrived = sync.NewCond(&l.mu)
	p.mu.listeners[addr] = l
	return l, nil
}

// freeAddrLocked returns host with a port not given out before.
func (p *Pipe) freeAddrLocked(host string) string {
	for {
		addr := net.JoinHostPort(host, strconv.Itoa(p.mu.nextPort))
		p.mu.nextPort++
		if p.mu.listeners[addr] == nil {
			return addr
		}
	}
}

// Dial connects to a listener. The error is ECONNREFUSED in a *net.OpError if there is none.
func (p *Pipe) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError("dial", addr, err)
	}
	p.mu.Lock()
	l := p.mu.listeners[addr]
	local := p.freeAddrLocked("127.0.0.1")
	p.mu.Unlock()
	if l == nil {
		return nil, opError("dial", addr, syscall.ECONNREFUSED)
	}
	client, server := newConnPair(Addr(local), Addr(addr))
	if !l.deliver(server) {
		return nil, opError("dial", addr, syscall.ECONNREFUSED)
	}
	return client, nil
}

func (p *Pipe) remove(l *pipeListener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.listeners[string(l.addr)] == l {
		delete(p.mu.listeners, string(l.addr))
	}
}

func opError(op, addr string, err error) error {
	return &net.OpError{Op: op, Net: "pipe", Addr: Addr(addr), Err: err}
}

// pipeListener queues connections until they are accepted.
type pipeListener struct {
	pipe *Pipe
	addr Addr
	mu   struct {
		sync.Mutex
		arrived *sync.Cond
		backlog []net.Conn
		closed  bool
	}
}

func (l *pipeListener) deliver(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || len(l.mu.backlog) >= maxBacklog {
		return false
	}
	l.mu.backlog = append(l.mu.backlog, c)
	l.mu.arrived.Signal()
	return true
}

// Accept waits for the next connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.mu.backlog) == 0 && !l.mu.closed {
		l.mu.arrived.Wait()
	}
	if l.mu.closed {
		return nil, opError("accept", string(l.addr), net.ErrClosed)
	}
	c := l.mu.backlog[0]
	l.mu.backlog = l.mu.backlog[1:]
	return c, nil
}

// Close frees the address, ends Accept and closes the connections nobody accepted.
func (l *pipeListener) Close() error {
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return opError("close", string(l.addr), net.ErrClosed)
	}
	l.mu.closed = true
	left := l.mu.backlog
	l.mu.backlog = nil
	l.mu.arrived.Broadcast()
	l.mu.Unlock()
	l.pipe.remove(l)
	for _, c := range left {
		if err := c.Close(); err != nil {
			return fmt.Errorf("close a connection nobody accepted: %w", err)
		}
	}
	return nil
}

// Addr returns the address listened on, with the port that was given for port 0.
func (l *pipeListener) Addr() net.Addr { return l.addr }
