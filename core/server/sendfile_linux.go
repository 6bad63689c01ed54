package server

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// transfer is one sendfile in progress. It is kept by the writer, so that the callbacks that the
// runtime wants are made once per connection.
type transfer struct {
	socket syscall.RawConn
	file   syscall.RawConn
	pos    int64
	left   int
	err    error
	// toSocket and fromFile are the methods as values.
	toSocket func(fd uintptr) bool
	fromFile func(fd uintptr)
	in       int
	ahead    readAhead
}

// sendfile copies n bytes of file to the client inside the kernel, with a position of its own:
// the file's is shared by all who read it.
func (w *answerWriter) sendfile(file systemFile, pos int64, n int) error {
	t := w.transfer
	if t == nil {
		socket, err := w.conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			return writeError(err)
		}
		t = &transfer{socket: socket}
		t.toSocket, t.fromFile = t.send, t.hold
		w.transfer = t
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("open log bytes for a client: %w", err)
	}
	t.file, t.pos, t.err, t.ahead.end = raw, pos, nil, pos
	for n > 0 {
		w.extend()
		giveWay()
		t.left = min(n, stepBytes)
		step := t.left
		if err := raw.Control(t.fromFile); err != nil && t.err == nil {
			t.err = err
		}
		w.written(step - t.left)
		n -= step - t.left
		if t.err != nil {
			return writeError(t.err)
		}
	}
	t.file = nil
	return nil
}

// hold runs the transfer while the file cannot be closed.
func (t *transfer) hold(fd uintptr) {
	t.in = int(fd)
	t.ahead.look(t.in, t.pos, t.left)
	if err := t.socket.Write(t.toSocket); err != nil && t.err == nil {
		t.err = err
	}
}

// send moves what the socket takes; false makes the runtime wait until it takes more.
func (t *transfer) send(fd uintptr) bool {
	for t.left > 0 {
		step := t.ahead.next(t.in, t.pos, t.left)
		n, err := syscall.Sendfile(int(fd), t.in, &t.pos, step)
		if n > 0 {
			t.left -= n
			continue
		}
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			t.err = fmt.Errorf("send log bytes: %w", err)
			return true
		default:
			t.err = errShortLog
			return true
		}
	}
	return true
}
