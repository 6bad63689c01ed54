package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// session is one stream of an exchange on one life of the plugin.
type session struct {
	e      *exchange
	in     *instance
	ctx    context.Context
	cancel context.CancelCauseFunc
	stream clientStream
	opened chan struct{}                   // closed when credit is set
	credit atomic.Pointer[pluginpb.Window] // of the sender; nil until the plugin opened the stream
	paused atomic.Bool                     // the receiver waits for the host's output
	drain  bool                            // Drain was sent; owned by the sender

	mu struct {
		sync.Mutex
		owed pluginpb.Credit // for results received, not granted yet
	}
}

// session runs one stream to its end. errCrashed and errRetry leave the queue as it is;
// errDrained is the regular end; any other error is final.
func (e *exchange) session(in *instance) (opened bool, err error) {
	s := &session{e: e, in: in, opened: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(e.ctx)
	defer s.cancel(nil)
	if s.stream, err = e.connect(s.ctx, in.rpc); err != nil {
		return false, e.p.streamFault(in, e.kind, err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.cancel(s.receive()) })
	wg.Go(s.watch)
	err = s.sendAll()
	s.cancel(err)
	_ = s.stream.CloseSend()
	wg.Wait()
	if e.ctx.Err() != nil {
		return s.credit.Load() != nil, context.Cause(e.ctx)
	}
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // what the receiver saw says more than a failed send
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return s.credit.Load() != nil, e.p.streamFault(in, e.kind, err)
}

// streamFault turns the end of a stream into an error of this package.
func (p *Plugin) streamFault(in *instance, kind string, err error) error {
	switch {
	case errors.Is(err, errDrained), errors.Is(err, errRetry), errors.Is(err, ErrFailed):
		return err
	case errors.Is(err, ErrProtocol):
		return fmt.Errorf("plugin %q: %w", p.options.Name, err)
	}
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	st, _ := status.FromError(err)
	switch st.Code() {
	case codes.NotFound, codes.FailedPrecondition, codes.Unimplemented:
		return fmt.Errorf("plugin %q: %s: %w", p.options.Name, st.Message(), ErrFailed)
	case codes.InvalidArgument, codes.ResourceExhausted, codes.Internal:
		select {
		case <-in.done: // it was cut off in the middle of a message
		case <-time.After(outputWait):
			return fmt.Errorf("plugin %q: %w: %s", p.options.Name, ErrProtocol, st.Message())
		}
	}
	return fmt.Errorf("plugin %q: %w", p.options.Name, p.lost(in, err))
}

// sendAll opens the stream and sends calls as they come and credits allow, then the drain.
func (s *session) sendAll() error {
	open := s.e.open()
	open.Part, open.Task = s.e.part, s.e.task
	open.Credit = &pluginpb.Credit{Frames: pluginpb.DefaultCreditFrames,
		Bytes: pluginpb.DefaultCreditBytes}
	if err := s.stream.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Open{Open: open}}); err != nil {
		return s.sendFault(err)
	}
	select {
	case <-s.opened:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	s.e.openedOnce()
	credits := s.credit.Load().Wake()
	for {
		sent, err := s.sendNext()
		if err != nil {
			return err
		}
		if sent {
			continue
		}
		select {
		case <-s.e.wake:
		case <-credits:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// sendNext sends the next message there is, if any.
func (s *session) sendNext() (sent bool, err error) {
	c, frame, waiting, drain := s.next()
	switch {
	case c != nil:
		return true, s.send(c.seq, frame)
	case drain && !s.drain:
		s.drain = true
		m := &pluginpb.Drain{TimeoutMs: drainTimeout.Milliseconds()}
		err = s.stream.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Drain{Drain: m}})
	case waiting: // no batch takes the credits along
		credit := s.takeOwed()
		if credit == nil {
			return false, nil
		}
		err = s.stream.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Credit{Credit: credit}})
	default:
		return false, nil
	}
	return true, s.sendFault(err)
}

func (e *exchange) openedOnce() {
	select {
	case <-e.opened:
	default:
		close(e.opened)
	}
}

// sendFault waits for what the receiver has to say about a broken stream. nil stays nil.
func (s *session) sendFault(err error) error {
	if errors.Is(err, io.EOF) {
		<-s.ctx.Done()
		return context.Cause(s.ctx)
	}
	return err
}

// next picks the oldest unsent call if credits allow it. waiting says that answers are due,
// drain that nothing is left and the stream is to be drained.
func (s *session) next() (c *call, frame []byte, waiting, drain bool) {
	e := s.e
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting = e.mu.sent > 0
	if e.mu.sent == len(e.mu.queue) {
		return nil, nil, waiting, e.mu.draining && !waiting
	}
	c = e.mu.queue[e.mu.sent]
	if !s.credit.Load().TryTake(len(c.frame)) {
		return nil, nil, waiting, false
	}
	if e.mu.sent == 0 {
		e.mu.progress = time.Now()
	}
	e.mu.sent++
	return c, c.frame, true, false
}

func (s *session) send(seq uint64, frame []byte) error {
	credit := s.takeOwed()
	err := pluginpb.Split(frame, func(piece []byte, more bool) error {
		b := &pluginpb.Batch{Seq: seq, Frame: piece, More: more, Credit: credit}
		credit = nil
		return s.stream.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Batch{Batch: b}})
	})
	return s.sendFault(err)
}

// takeOwed returns the credits due to the plugin, nil when there are none.
func (s *session) takeOwed() *pluginpb.Credit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.owed.Frames == 0 {
		return nil
	}
	c := &pluginpb.Credit{Frames: s.mu.owed.Frames, Bytes: s.mu.owed.Bytes}
	s.mu.owed.Frames, s.mu.owed.Bytes = 0, 0
	return c
}

// receive handles what the plugin says until the stream ends.
func (s *session) receive() error {
	var join pluginpb.Joiner
	for {
		m, err := s.stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("%w: it ended the stream", ErrProtocol)
			}
			return err
		}
		switch x := m.Msg.(type) {
		case *pluginpb.FromPlugin_Opened:
			if !s.credit.CompareAndSwap(nil, pluginpb.NewWindow(x.Opened.Credit)) {
				return fmt.Errorf("%w: opened twice", ErrProtocol)
			}
			close(s.opened)
		case *pluginpb.FromPlugin_Result:
			err = s.onResult(&join, x.Result)
		case *pluginpb.FromPlugin_Ack:
			err = s.onAnswer(x.Ack.Seq, &answer{errs: x.Ack.Errors, ack: true}, x.Ack.Credit)
		case *pluginpb.FromPlugin_Credit:
			s.grant(x.Credit)
		case *pluginpb.FromPlugin_Drained:
			return errDrained
		case *pluginpb.FromPlugin_Failure:
			return s.e.p.failure(s.e.kind, x.Failure)
		case *pluginpb.FromPlugin_Log:
			s.e.p.onLog(s.e.part, x.Log)
		case *pluginpb.FromPlugin_Output:
			s.onOutput(x.Output.Data)
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) onResult(join *pluginpb.Joiner, r *pluginpb.Result) error {
	frame, done, err := join.Add(r.Seq, r.Frame, r.More)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if !done {
		return nil
	}
	return s.onAnswer(r.Seq, &answer{frame: frame, counts: r.Counts, errs: r.Errors}, r.Credit)
}

// onAnswer completes the oldest call; an answer to any other is a fault.
func (s *session) onAnswer(seq uint64, a *answer, credit *pluginpb.Credit) error {
	c := s.e.head()
	if c == nil || c.seq != seq {
		return fmt.Errorf("%w: it answered batch %d, which is not the oldest unanswered one",
			ErrProtocol, seq)
	}
	if !a.ack { // the caller has it, so the plugin gets the room back at once
		s.mu.Lock()
		s.mu.owed.Frames++
		s.mu.owed.Bytes += uint64(len(a.frame))
		s.mu.Unlock()
	}
	c.answer = a
	s.grant(credit)
	s.e.complete(c)
	return nil
}

func (s *session) grant(c *pluginpb.Credit) {
	if w := s.credit.Load(); w != nil {
		w.Grant(c)
	}
}

// failure is what a Failure message means.
func (p *Plugin) failure(kind string, f *pluginpb.Failure) error {
	why := ErrFailed
	if f.Retryable {
		why = errRetry
	}
	return fmt.Errorf("%s of plugin %q: %s (%s): %w", kind, p.options.Name, f.Message, f.Class, why)
}

// onLog passes a line of the plugin's logger on.
func (p *Plugin) onLog(part string, l *pluginpb.Log) {
	attrs := []any{"part", part}
	for i := 0; i+1 < len(l.Attrs) && i < 64; i += 2 {
		attrs = append(attrs, cut(l.Attrs[i], 128), cut(l.Attrs[i+1], logLineBytes))
	}
	p.log.log(slog.Level(l.Level), l.Message, attrs...)
}

func (s *session) onOutput(data []byte) {
	s.paused.Store(true)
	s.e.p.output(s.e.part, data)
	s.e.mu.Lock()
	s.e.mu.progress = time.Now()
	s.e.mu.Unlock()
	s.paused.Store(false)
}

// output writes to the host's standard output, or to the log.
func (p *Plugin) output(part string, data []byte) {
	if p.options.Output != nil {
		if _, err := p.options.Output.Write(data); err != nil {
			p.log.log(slog.LevelWarn, "write output of plugin", "error", err)
		}
		return
	}
	for line := range strings.Lines(string(data)) {
		p.log.log(slog.LevelInfo, strings.TrimRight(line, "\r\n"), "part", part, "stream", "output")
	}
}

// watch ends the process when the oldest call takes too long.
func (s *session) watch() {
	e := s.e
	tick := time.NewTicker(max(10*time.Millisecond, e.hang/16))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		if s.paused.Load() {
			continue
		}
		e.mu.Lock()
		limit := max(e.hang, 20*e.mu.slowest)
		stuck := e.mu.sent > 0 && time.Since(e.mu.progress) > limit
		e.mu.Unlock()
		if stuck {
			e.p.options.Logger.Error("plugin hangs, killing it", "part", e.part, "task", e.task,
				"pid", s.in.pid, "unanswered_for", limit)
			s.in.abort()
			s.cancel(fmt.Errorf("no answer within %s", limit))
			return
		}
	}
}
