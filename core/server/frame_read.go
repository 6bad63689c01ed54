package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Errors that end a connection.
var (
	// errFrameSize tells that a length field is negative, too small or over the limit.
	errFrameSize = errors.New("bad frame size")
	// errSlowClient tells that a frame did not arrive, or an answer was not read, in time.
	errSlowClient = errors.New("client too slow")
	// errIdle tells that no request came for connections.max.idle.ms.
	errIdle = errors.New("no request for connections.max.idle.ms")
)

// minFrameBytes is the smallest request: a header with a null client id.
const minFrameBytes = 10

// frameReader cuts the byte stream of one connection into frames. While it is parked between
// frames it holds no buffer. It belongs to the connection's reader goroutine.
type frameReader struct {
	conn net.Conn
	// readers bounds the read buffers of all connections, memory their large frames, huge what goes
	// beyond largeBufferBytes of those. Whoever waits for one may hold a part of those before it,
	// never of those behind it, or waits for nothing but its own bytes: so they cannot wait for each
	// other.
	readers, memory, huge *budget
	// limitOf bounds a frame by its api key and says how much memory its bytes will cost.
	limitOf func(key int16) (limit, cost int)
	// idle bounds the wait for the first byte of a frame, step the wait for each further part.
	idle, step time.Duration

	// least is the smallest frame.
	least int
	// gate is closed while nothing is to be read; nil never is.
	gate *muteGate

	// senders are all who read, nil for none; tooSlow closes the connection when they wait for this
	// one in vain, for the reason that it is given.
	senders *senders
	tooSlow func(error)
	// arrival is what is known of the request that is being read.
	arrival arrival

	// stop makes every wait end at once; nil never does.
	stop *atomic.Bool

	// buf holds unread bytes in [r, w); nil when parked.
	buf   *[]byte
	r, w  int
	held  int64 // budget held for buf
	large *[]byte
	// largeHeld and hugeHeld are what is held of memory and huge for large.
	largeHeld, hugeHeld int64
	// size is where the length field is read while no buffer is held; peeked bytes of it are there
	// already.
	size   [4]byte
	peeked int
	// deadline is the read deadline that is set; zero when none is.
	deadline time.Time
}

// next returns the next frame without its length field. It is valid until the next call. limit
// bounds its size, bufferBytes the buffer to read with. io.EOF means that the peer closed between
// two frames.
func (f *frameReader) next(ctx context.Context, limit, bufferBytes int) ([]byte, error) {
	f.dropLarge()
	size, err := f.nextSize(ctx, bufferBytes)
	if err != nil {
		return nil, err
	}
	if size < f.least || size > limit {
		return nil, fmt.Errorf("read frame of %d bytes, allowed are %d to %d: %w",
			size, f.least, limit, errFrameSize)
	}
	if size > len(*f.buf) {
		return f.nextLarge(ctx, size)
	}
	if err := f.fill(size); err != nil {
		return nil, err
	}
	frame := (*f.buf)[f.r : f.r+size : f.r+size]
	f.r += size
	return frame, nil
}

// buffered reports whether the next frame is already here completely.
func (f *frameReader) buffered() bool {
	if f.w-f.r < 4 {
		return false
	}
	size := int32(binary.BigEndian.Uint32((*f.buf)[f.r:]))
	return size >= 0 && int(size) <= f.w-f.r-4
}

// nextSize reads a length field, parked without a buffer if nothing is buffered.
func (f *frameReader) nextSize(ctx context.Context, bufferBytes int) (int, error) {
	if f.r < f.w {
		if err := f.fill(4); err != nil {
			return 0, err
		}
		size := int(int32(binary.BigEndian.Uint32((*f.buf)[f.r:])))
		f.r += 4
		return size, nil
	}
	f.park()
	if err := f.await(); err != nil {
		return 0, err
	}
	if f.gate != nil {
		if err := f.gate.wait(ctx); err != nil {
			return 0, err
		}
	}
	held, err := f.readers.acquire(ctx, bufferBytes)
	if err != nil {
		return 0, err
	}
	f.buf, f.held = takeBuffer(bufferBytes), held
	return int(int32(binary.BigEndian.Uint32(f.size[:]))), nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// await reads the length field into f.size: any time may pass before its first byte, little
// between that and the last.
func (f *frameReader) await() error {
	n := f.peeked
	if f.peeked = 0; n == 0 {
		f.extend(f.idle)
		var err error
		if n, err = f.conn.Read(f.size[:]); n == 0 && err != nil {
			return err
		}
	}
	for n < len(f.size) {
		f.extendNow(f.step)
		m, err := f.conn.Read(f.size[n:])
		if n += m; m == 0 && err != nil {
			return midFrame(err)
		}
	}
	return nil
}

// watch calls gone if the peer hangs up while the connection's own goroutine is busy with a
// request. The reader must be parked, and is not to be used until the returned function has ended
// the watch.
func (f *frameReader) watch(gone func()) (end func()) {
	if f.buf != nil || f.peeked > 0 {
		return func() {} // the peer has sent more: it was there a moment ago
	}
	f.deadline = time.Time{}
	_ = f.conn.SetReadDeadline(f.deadline)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err := f.conn.Read(f.size[:1])
		if f.peeked = n; n == 0 && err != nil && !isTimeout(err) {
			gone()
		}
	}()
	return func() {
		_ = f.conn.SetReadDeadline(past)
		<-done
	}
}

// park gives the buffer back; nothing may be buffered.
func (f *frameReader) park() {
	if f.buf == nil {
		return
	}
	giveBuffer(f.buf)
	f.buf = nil
	f.readers.release(f.held)
	f.r, f.w, f.held = 0, 0, 0
}

// drained gives the buffer back if nothing is buffered. The frame returned last is not valid any
// more.
func (f *frameReader) drained() {
	if f.r == f.w {
		f.park()
	}
	f.dropLarge()
}

// fill reads until n bytes are buffered. n fits in the buffer.
func (f *frameReader) fill(n int) error {
	b := *f.buf
	if f.w-f.r >= n {
		return nil
	}
	if len(b)-f.r < n {
		copy(b, b[f.r:f.w])
		f.r, f.w = 0, f.w-f.r
	}
	f.arrival.begin(f.readers, n-(f.w-f.r))
	defer f.arrival.end()
	for f.w-f.r < n {
		f.extend(f.step)
		end := len(b)
		if f.gate != nil && f.gate.closed() {
			end = f.r + n
		}
		m, err := f.conn.Read(b[f.w:end])
		f.arrival.got.Add(int64(m))
		if f.w += m; m == 0 && err != nil {
			return midFrame(err)
		}
	}
	return nil
}

// nextLarge reads a frame that does not fit in the buffer. Memory for it is claimed when the buffer
// is full, so that a length field alone costs nothing, and for all that is then taken: what is kept
// in a pool was used before, and has its pages. A very large frame claims the rest from another
// budget when its first part has arrived, and holds that meanwhile: so nobody waits with memory
// that is not counted, and those who wait for huge are waited for by nobody who has some of it.
func (f *frameReader) nextLarge(ctx context.Context, size int) ([]byte, error) {
	if err := f.fill(len(*f.buf)); err != nil {
		return nil, err
	}
	limit, cost := f.limitOf(int16(binary.BigEndian.Uint16((*f.buf)[f.r:])))
	if size > limit {
		return nil, fmt.Errorf("read frame of %d bytes, allowed for its api key are %d: %w",
			size, limit, errFrameSize)
	}
	first := min(size, largeBufferBytes)
	if err := claim(ctx, f.memory, max(first*cost, bufferSize(first)), &f.largeHeld); err != nil {
		return nil, err
	}
	f.large = takeBuffer(first)
	have := copy(*f.large, (*f.buf)[f.r:f.w])
	f.r, f.w = 0, 0
	if err := f.fillLarge(f.memory, have, first); err != nil {
		return nil, err
	}
	if size > first {
		if err := claim(ctx, f.huge, max(size, (size-first)*cost), &f.hugeHeld); err != nil {
			return nil, err
		}
		grown := takeBuffer(size)
		copy(*grown, (*f.large)[:first])
		giveBuffer(f.large)
		f.large = grown
		f.memory.release(f.largeHeld)
		f.largeHeld = 0
		if err := f.fillLarge(f.huge, first, size); err != nil {
			return nil, err
		}
	}
	giveWay()
	return (*f.large)[:size:size], nil
}

// claim takes n bytes of a budget and puts what it took into held.
func claim(ctx context.Context, b *budget, n int, held *int64) error {
	took, err := b.acquire(ctx, n)
	if err != nil {
		return err
	}
	*held = took
	return nil
}

// fillLarge reads [have, end) of a large frame, a part at a time so that the deadline measures
// progress, while memory of held is held for it.
func (f *frameReader) fillLarge(held *budget, have, end int) error {
	b := *f.large
	f.arrival.begin(held, end-have)
	defer f.arrival.end()
	for have < end {
		f.extend(f.step)
		n, err := f.conn.Read(b[have:min(end, have+1<<20)])
		f.arrival.got.Add(int64(n))
		if have += n; n == 0 && err != nil {
			return midFrame(err)
		}
	}
	return nil
}

// dropLarge gives the buffer of a large frame back.
func (f *frameReader) dropLarge() {
	if f.large == nil {
		return
	}
	giveBuffer(f.large)
	f.large = nil
	f.memory.release(f.largeHeld)
	f.huge.release(f.hugeHeld)
	f.largeHeld, f.hugeHeld = 0, 0
}

// close gives everything back.
func (f *frameReader) close() {
	f.r, f.w = 0, 0
	f.park()
	f.dropLarge()
	if f.senders != nil {
		f.senders.remove(f)
	}
}

// extend moves the read deadline to span from now, unless the one that is set is close to it:
// setting one costs more than reading the clock.
func (f *frameReader) extend(span time.Duration) {
	left := time.Until(f.deadline)
	if left <= span-span/8 || left > span {
		f.extendNow(span)
	}
}

// extendNow moves the read deadline to span from now, or into the past if the reader is to stop.
// Whoever sets stop sets a past deadline after it, so that one of the two is seen.
func (f *frameReader) extendNow(span time.Duration) {
	f.deadline = time.Now().Add(span)
	_ = f.conn.SetReadDeadline(f.deadline)
	if f.stop != nil && f.stop.Load() {
		_ = f.conn.SetReadDeadline(past)
	}
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// midFrame makes an error of reading inside a frame distinct from one between frames.
func midFrame(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("read frame: %w", io.ErrUnexpectedEOF)
	case isTimeout(err):
		return fmt.Errorf("read frame: %w", errSlowClient)
	}
	return fmt.Errorf("read frame: %w", err)
}
