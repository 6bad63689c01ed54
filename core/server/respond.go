package server

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/storage"
)

// slot is the place of one request in its connection's queue of answers. Slots are filled in any
// order and written in the order of the requests.
type slot struct {
	// out is the answer; valid once done is set.
	out answer
	// done tells that the answer is complete. Guarded by the queue's lock.
	done bool
	// queued is how long the reader waited for this place, in nanoseconds.
	queued int64
	// cancel ends the wait of a parked request early; nil when it is not parked. Guarded by the
	// queue's lock, called without it.
	cancel func()
}

// answer is one complete response frame.
type answer struct {
	// bytes is the frame, without the parts. Nil when nothing is to be written, as for acks=0.
	bytes *[]byte
	// parts are runs of log bytes that belong into the frame, in order; nil when there are none.
	parts *[]filePart
	// large counts the bytes until they are written; nil if they are few.
	large *atomic.Int64
	// ended is the request.
	ended ended
	// err, when set, closes the connection instead of answering.
	err error
}

// filePart is a run of log bytes that is not copied into the frame.
type filePart struct {
	// at is the position in answer.bytes before which the run belongs.
	at int
	// chunk keeps the bytes readable until it is released.
	chunk storage.Chunk
}

var partPool = sync.Pool{New: func() any { return new([]filePart) }}

func takeParts() *[]filePart { return partPool.Get().(*[]filePart) }

// release frees what an answer holds.
func (a *answer) release() {
	if a.large != nil {
		a.large.Add(-a.size())
	}
	giveBuffer(a.bytes)
	if a.parts != nil {
		for i := range *a.parts {
			(*a.parts)[i].chunk.Release()
		}
		clear(*a.parts)
		*a.parts = (*a.parts)[:0]
		partPool.Put(a.parts)
	}
	*a = answer{}
}

// size is how much memory the answer holds, in bytes.
func (a *answer) size() int64 {
	if a.bytes == nil {
		return 0
	}
	return int64(len(*a.bytes))
}

// answerQueue is a connection's FIFO of slots.
type answerQueue struct {
	w *answerWriter
	// broken is called once when writing fails or an answer asks to close.
	broken func(error)
	// writers waits for writer goroutines.
	writers *sync.WaitGroup

	mu struct {
		sync.Mutex
		// slots are the requests not yet answered, oldest first.
		slots []*slot
		// held are the bytes of answers that are finished and not released.
		held int64
		// writing tells that a goroutine is writing answers.
		writing bool
		// closed tells that nothing is written any more.
		closed bool
		// notFull is signalled when a slot leaves or an answer is written; only the reader waits on it.
		notFull *sync.Cond
		// empty is closed when the last slot leaves, if someone waits for that.
		empty chan struct{}
	}
}

// maxPipelined bounds the requests of one connection that are not answered yet. Clients send 5 to
// 100; the reader stops reading at this bound.
const maxPipelined = 256

var slotPool = sync.Pool{New: func() any { return new(slot) }}

// begin adds a slot for the request just read; it waits while too many are open, or too much of the
// answers is unread. nil means that
// the queue is closed.
func (q *answerQueue) begin() *slot {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := int64(0)
	for (len(q.mu.slots) >= maxPipelined || q.mu.held > maxHeldAnswers) && !q.mu.closed {
		if len(q.mu.slots) > 0 && q.mu.slots[0].done && !q.mu.writing {
			q.startWriterLocked()
		}
		if waiting == 0 {
			waiting = clock()
		}
		q.mu.notFull.Wait()
	}
	if q.mu.closed {
		return nil
	}
	s := slotPool.Get().(*slot)
	if waiting != 0 {
		s.queued = clock() - waiting
	}
	q.mu.slots = append(q.mu.slots, s)
	return s
}

// park records how to end the wait of s early. It reports false when the queue is closed; the
// caller must then finish s itself.
func (q *answerQueue) park(s *slot, cancel func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.cancel = cancel
	return !q.mu.closed
}

// finish completes s. With deferWrite the caller promises to call flush soon; otherwise a writer
// is started if s is next in line.
func (q *answerQueue) finish(s *slot, a answer, deferWrite bool) {
	q.mu.Lock()
	if q.mu.closed {
		q.mu.Unlock()
		a.release()
		return
	}
	s.out = a
	q.mu.held += a.size()
	s.done = true
	s.cancel = nil
	if !deferWrite && !q.mu.writing && q.mu.slots[0].done {
		q.startWriterLocked()
	}
	q.mu.Unlock()
}

// startWriterLocked starts a goroutine that writes what is ready. The completers of parked
// requests must not write themselves: they are the log's flusher and its appenders, which a slow
// client would hold up.
func (q *answerQueue) startWriterLocked() {
	q.mu.writing = true
	q.writers.Go(q.write)
}

// flush writes what is ready, unless another goroutine is at it.
func (q *answerQueue) flush() {
	q.mu.Lock()
	if q.mu.writing || q.mu.closed || len(q.mu.slots) == 0 || !q.mu.slots[0].done {
		q.mu.Unlock()
		return
	}
	q.mu.writing = true
	q.mu.Unlock()
	q.write()
}

// write writes the ready prefix until there is none. The caller has set writing.
func (q *answerQueue) write() {
	var batch [16]answer
	written := int64(0)
	for {
		n := q.takeReady(batch[:], written)
		if n == 0 {
			return
		}
		err := q.w.writeAll(batch[:n])
		written = 0
		now := clock()
		for i := range batch[:n] {
			if err == nil {
				batch[i].ended.written(now)
			}
			written += batch[i].size()
			batch[i].release()
		}
		if err != nil {
			q.broken(err)
			return
		}
	}
}

// takeReady moves the ready prefix into batch; released are the bytes of those it gave before. When
// there is none it ends the turn of the writer.
func (q *answerQueue) takeReady(batch []answer, released int64) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.held -= released
	n := 0
	for n < len(batch) && n < len(q.mu.slots) && q.mu.slots[n].done {
		s := q.mu.slots[n]
		batch[n] = s.out
		*s = slot{}
		slotPool.Put(s)
		n++
	}
	rest := copy(q.mu.slots, q.mu.slots[n:])
	clear(q.mu.slots[rest:])
	q.mu.slots = q.mu.slots[:rest]
	if n == 0 || q.mu.closed {
		q.mu.writing = false
	}
	if n > 0 || released > 0 {
		q.mu.notFull.Signal()
	}
	if rest == 0 && n == 0 && q.mu.empty != nil {
		close(q.mu.empty)
		q.mu.empty = nil
	}
	return n
}

// pending reports whether a request is not answered yet, or its answer not written to the end.
func (q *answerQueue) pending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.slots) > 0 || q.mu.writing
}

// drained returns a channel that is closed when every request is answered and written.
func (q *answerQueue) drained() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.empty == nil {
		q.mu.empty = make(chan struct{})
		if len(q.mu.slots) == 0 && !q.mu.writing {
			close(q.mu.empty)
			ch := q.mu.empty
			q.mu.empty = nil
			return ch
		}
	}
	return q.mu.empty
}

// cancelParked ends the waits of all parked requests early: they answer with what they have.
func (q *answerQueue) cancelParked() {
	q.mu.Lock()
	var cancels []func()
	for _, s := range q.mu.slots {
		if s.cancel != nil && !s.done {
			cancels = append(cancels, s.cancel)
			s.cancel = nil
		}
	}
	q.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
}

// close drops every answer and ends every wait.
func (q *answerQueue) close() {
	q.mu.Lock()
	if q.mu.closed {
		q.mu.Unlock()
		return
	}
	q.mu.closed = true
	slots := q.mu.slots
	q.mu.slots = nil
	if q.mu.empty != nil {
		close(q.mu.empty)
		q.mu.empty = nil
	}
	q.mu.notFull.Broadcast()
	var cancels []func()
	for _, s := range slots {
		if s.done {
			s.out.release()
		} else if s.cancel != nil {
			cancels = append(cancels, s.cancel)
			s.cancel = nil
		}
	}
	q.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
}

// answerWriter writes answers to a client, many small ones with one call.
type answerWriter struct {
	conn net.Conn
	// step bounds the time a client may take to accept each part of at most stepBytes.
	step time.Duration
	// written counts bytes for metrics.
	written func(n int)
	// files tells that log bytes may go from file to socket without a copy.
	files bool
	// deadline is the write deadline that is set.
	deadline time.Time
	// gather collects small pieces; fill bytes of it are used.
	gather *[]byte
	fill   int
	// transfer is the state of sending files, made at its first use.
	transfer *transfer
}

// stepBytes is the most that is written under one deadline.
const stepBytes = 1 << 20

// writeAll writes answers in order.
func (w *answerWriter) writeAll(answers []answer) error {
	defer func() {
		giveBuffer(w.gather)
		w.gather, w.fill = nil, 0
	}()
	for i := range answers {
		a := &answers[i]
		if a.err != nil {
			return errors.Join(w.flush(), a.err)
		}
		if a.bytes == nil {
			continue
		}
		from := 0
		if a.parts != nil {
			for j := range *a.parts {
				p := &(*a.parts)[j]
				if err := w.append((*a.bytes)[from:p.at]); err != nil {
					return err
				}
				if err := w.writeChunk(&p.chunk); err != nil {
					return err
				}
				from = p.at
			}
		}
		if err := w.append((*a.bytes)[from:]); err != nil {
			return err
		}
	}
	return w.flush()
}

// append writes b now or together with what follows.
func (w *answerWriter) append(b []byte) error {
	if w.gather == nil {
		w.gather = takeBuffer(readBufferBytes)
	}
	if len(b) > len(*w.gather)-w.fill {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(b) > len(*w.gather)/2 {
		return w.write(b)
	}
	w.fill += copy((*w.gather)[w.fill:], b)
	return nil
}

// flush writes what append has collected.
func (w *answerWriter) flush() error {
	if w.fill == 0 {
		return nil
	}
	b := (*w.gather)[:w.fill]
	w.fill = 0
	return w.write(b)
}

// write writes b, in parts so that the deadline measures progress.
func (w *answerWriter) write(b []byte) error {
	for len(b) > 0 {
		w.extend()
		n, err := w.conn.Write(b[:min(len(b), stepBytes)])
		w.written(n)
		if err != nil {
			return writeError(err)
		}
		b = b[n:]
	}
	return nil
}

// giveWay is called before a large piece of work. One connection with always more to do, or a read
// from a slow disk, can keep the only thread that looks after the network: others then wait until
// the runtime notices, up to 10 ms. A new goroutine wakes a second thread, which stays to look.
func giveWay() { go func() {}() }

// extend moves the write deadline to step from now, unless the one that is set is close to it.
func (w *answerWriter) extend() {
	now := time.Now()
	if w.deadline.Sub(now) > w.step-w.step/8 {
		return
	}
	w.deadline = now.Add(w.step)
	_ = w.conn.SetWriteDeadline(w.deadline)
}

// writeError names the client's slowness.
func writeError(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("write answer: %w", errSlowClient)
	}
	return fmt.Errorf("write answer: %w", err)
}
