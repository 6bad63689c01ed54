package vnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBuffer bounds the bytes on their way in one direction: a few requests or one typical batch,
// so that neither side waits for the other on each write.
const pipeBuffer = 256 << 10

// firstBuffer is what a direction allocates for its first bytes.
const firstBuffer = 4 << 10

// pipeConn is one end of a connection.
type pipeConn struct {
	local, remote net.Addr
	in, out       *stream
}

var _ net.Conn = (*pipeConn)(nil)

func newConnPair(clientAddr, serverAddr net.Addr) (client, server *pipeConn) {
	up, down := newStream(), newStream()
	client = &pipeConn{local: clientAddr, remote: serverAddr, in: down, out: up}
	server = &pipeConn{local: serverAddr, remote: clientAddr, in: up, out: down}
	return client, server
}

func (c *pipeConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && err != io.EOF {
		err = &net.OpError{Op: "read", Net: "pipe", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

func (c *pipeConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err != nil {
		err = &net.OpError{Op: "write", Net: "pipe", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

// Close ends both directions; the peer still reads what was written before.
func (c *pipeConn) Close() error {
	c.in.closeReader()
	c.out.closeWriter(true)
	return nil
}

// CloseWrite ends the outgoing direction only, as (*net.TCPConn).CloseWrite does.
func (c *pipeConn) CloseWrite() error {
	c.out.closeWriter(false)
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return c.local }
func (c *pipeConn) RemoteAddr() net.Addr { return c.remote }

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	c.out.writing.set(c.out, t)
	return nil
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.writing.set(c.out, t)
	return nil
}

// stream is one direction: a ring of bytes with a reader's and a writer's end.
type stream struct {
	mu           sync.Mutex
	changed      *sync.Cond // any field below changed
	ring         []byte
	start, size  int  // of the bytes in the ring
	writerClosed bool // io.EOF after the bytes that are left
	writerGone   bool // the writer's own handle is closed
	readerClosed bool
	reading      deadline
	writing      deadline
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// deadline of one end, guarded by the stream's lock.
type deadline struct {
	at      time.Time   // zero = none
	timer   *time.Timer // set while somebody waits under a deadline
	waiting int
}

func (d *deadline) set(s *stream, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.at = t
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	s.changed.Broadcast() // waiters look at the new deadline
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// waitLocked waits for a change or the deadline.
func (s *stream) waitLocked(d *deadline) {
	if !d.at.IsZero() && d.timer == nil {
		d.timer = time.AfterFunc(time.Until(d.at), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed.Broadcast()
		})
	}
	d.waiting++
	s.changed.Wait()
	d.waiting--
}

// stopTimerLocked ends the deadline's timer when nobody waits under it any more.
func (d *deadline) stopTimerLocked() {
	if d.timer != nil && d.waiting == 0 {
		d.timer.Stop()
		d.timer = nil
	}
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.reading.stopTimerLocked()
	for {
		switch {
		case s.readerClosed:
			return 0, net.ErrClosed
		case s.reading.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.size > 0:
			n := s.takeLocked(p)
			s.changed.Broadcast()
			return n, nil
		case s.writerClosed:
			return 0, io.EOF
		}
		s.waitLocked(&s.reading)
	}
}

func (s *stream) write(p []byte) (written int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.writing.stopTimerLocked()
	for {
		switch {
		case s.writerGone:
			return written, net.ErrClosed
		case s.writerClosed, s.readerClosed:
			return written, syscall.EPIPE
		case s.writing.passed():
			return written, os.ErrDeadlineExceeded
		case len(p) == written:
			return written, nil
		case s.size < pipeBuffer:
			written += s.putLocked(p[written:])
			s.changed.Broadcast()
			continue
		}
		s.waitLocked(&s.writing)
	}
}

// takeLocked moves bytes out of the ring.
func (s *stream) takeLocked(p []byte) int {
	n := copy(p, s.ring[s.start:min(s.start+s.size, len(s.ring))])
	n += copy(p[n:], s.ring[:max(s.start+s.size-len(s.ring), 0)])
	s.size -= n
	if s.start = (s.start + n) % len(s.ring); s.size == 0 {
		s.start = 0
	}
	return n
}

// putLocked moves bytes into the ring, which grows up to pipeBuffer.
func (s *stream) putLocked(p []byte) int {
	p = p[:min(len(p), pipeBuffer-s.size)]
	if need := s.size + len(p); need > len(s.ring) {
		size := max(len(s.ring), firstBuffer)
		for size < need {
			size *= 2
		}
		ring, held := make([]byte, size), s.size
		if held > 0 {
			s.takeLocked(ring[:held])
		}
		s.ring, s.start, s.size = ring, 0, held
	}
	end := (s.start + s.size) % len(s.ring)
	n := copy(s.ring[end:], p)
	copy(s.ring, p[n:])
	s.size += len(p)
	return len(p)
}

func (s *stream) closeReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readerClosed = true
	s.ring, s.start, s.size = nil, 0, 0
	s.changed.Broadcast()
}

func (s *stream) closeWriter(handle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writerClosed = true
	s.writerGone = s.writerGone || handle
	s.changed.Broadcast()
}
