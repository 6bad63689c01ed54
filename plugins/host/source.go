package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// SourceOptions say which source to run.
type SourceOptions struct {
	Part   string // name of the source; "" = the only one of the plugin
	Config []byte // JSON
	Task   string // names the task in logs
	// Position is where to go on: SourceBatch.Position of the last batch that is durable; nil = the
	// start.
	Position []byte
}

// SourceBatch is what a source read at once.
type SourceBatch struct {
	// Records are in the order of the source. Topic and Offset tell where each comes from (a file and
	// its line), for error messages. They alias memory of the batch; see Release.
	Records []Record
	// Errors are records the source could not decode, by index: their original bytes are the value.
	Errors []RecordError
	// Position is the place after the last record, nil when the source told none.
	Position Position
	frame    []byte
}

// Release recycles the memory the records alias: they must not be used any more. It is optional.
func (b *SourceBatch) Release() {
	pluginpb.PutBuffer(b.frame)
	b.frame, b.Records = nil, nil
}

// Position is a place in a source, opaque to all but the source.
type Position []byte

// String is the position for people: positions of the Go SDK are JSON.
func (p Position) String() string {
	if json.Valid(p) {
		return string(p)
	}
	return fmt.Sprintf("%q", []byte(p))
}

// Source is a source of a plugin at work for one task. Read is for one goroutine, Commit for
// another or the same.
//
// The order that loses nothing: Read, write the records to the log, store Position with them,
// and only then Commit it.
type Source struct {
	p       *Plugin
	options SourceOptions
	ctx     context.Context
	cancel  context.CancelCauseFunc
	opened  chan struct{}
	done    chan struct{}
	wake    chan struct{}     // one token when there is something to send
	batches chan *SourceBatch // received and not read
	acked   chan struct{}     // one token when acks moved on
	ended   bool              // Read returned io.EOF; of its goroutine

	mu struct {
		sync.Mutex
		position  []byte           // after the last batch received
		end       bool             // the source is done
		err       error            // ended
		owed      pluginpb.Credit  // for batches handed out
		commit    *pluginpb.Commit // newest one, nil when acknowledged
		sent      bool             // commit was sent on this stream
		commitSeq uint64
		ackSeq    uint64
		draining  bool
	}
}

// Source opens a source and waits until it is ready. When the plugin asks for another try it is
// opened again until ctx ends.
func (p *Plugin) Source(ctx context.Context, o SourceOptions) (*Source, error) {
	s := &Source{
		p: p, options: o, opened: make(chan struct{}), done: make(chan struct{}),
		wake: make(chan struct{}, 1), acked: make(chan struct{}, 1),
		batches: make(chan *SourceBatch, 2*pluginpb.DefaultCreditFrames),
	}
	s.mu.position = slices.Clone(o.Position)
	s.ctx, s.cancel = context.WithCancelCause(p.ctx)
	if err := p.register(s); err != nil {
		return nil, err
	}
	go s.run()
	select {
	case <-s.opened:
		return s, nil
	case <-s.done:
		p.unregister(s)
		return nil, s.failure()
	case <-ctx.Done():
		s.cancel(context.Cause(ctx))
		<-s.done
		p.unregister(s)
		return nil, fmt.Errorf("open source of plugin %q: %w", p.options.Name, context.Cause(ctx))
	}
}

func (s *Source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// Read returns the next batch, or io.EOF when a bounded source is done. Other errors are final, but
// for the end of ctx.
func (s *Source) Read(ctx context.Context) (*SourceBatch, error) {
	if s.ended {
		return nil, io.EOF
	}
	var b *SourceBatch
	select {
	case b = <-s.batches:
	case <-s.done:
		select {
		case b = <-s.batches: // it came before the end
		default:
			return nil, s.failure()
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if b == nil {
		s.ended = true
		return nil, io.EOF
	}
	s.mu.Lock()
	s.mu.owed.Frames++
	s.mu.owed.Bytes += uint64(len(b.frame))
	s.mu.Unlock()
	signal(s.wake)
	return b, nil
}

// Commit tells the source that all up to position is durable, and waits until it knows. A newer
// Commit stands for an older one.
func (s *Source) Commit(ctx context.Context, position []byte) error {
	s.mu.Lock()
	s.mu.commitSeq++
	seq := s.mu.commitSeq
	s.mu.commit = &pluginpb.Commit{Seq: seq, Position: slices.Clone(position)}
	s.mu.sent = false
	s.mu.Unlock()
	signal(s.wake)
	for {
		s.mu.Lock()
		acked, err := s.mu.ackSeq >= seq, s.mu.err
		s.mu.Unlock()
		if acked || err != nil {
			signal(s.acked) // for others that wait
			if acked {
				err = nil
			}
			return err
		}
		select {
		case <-s.acked:
		case <-s.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close ends the source: it stops reading, and what it read but Read did not return is given up.
func (s *Source) Close() error {
	defer s.p.unregister(s)
	s.mu.Lock()
	s.mu.draining = true
	s.mu.Unlock()
	signal(s.wake)
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	var err error
	for waiting := true; waiting; {
		select {
		case <-s.batches: // nobody wants them
		case <-s.done:
			waiting = false
		case <-timer.C:
			err = fmt.Errorf("source of plugin %q did not drain within %s", s.p.options.Name, drainTimeout)
			waiting = false
		}
	}
	s.cancel(fmt.Errorf("source of plugin %q: %w", s.p.options.Name, ErrClosed))
	<-s.done
	if f := s.failure(); err == nil && !errors.Is(f, ErrClosed) {
		err = f
	}
	return err
}

// run opens a stream on each life of the plugin until the source ends.
func (s *Source) run() {
	defer close(s.done)
	wait := retryWaitMin
	for {
		in, err := s.p.instance(s.ctx)
		if err == nil {
			var opened bool
			opened, err = s.stream(in)
			if opened {
				wait = retryWaitMin
			}
		}
		switch {
		case errors.Is(err, errCrashed): // the next life goes on at the position
		case errors.Is(err, errRetry):
			s.p.options.Logger.Warn("plugin source asks to be opened again",
				"part", s.options.Part, "task", s.options.Task, "error", err, "wait", wait)
			select {
			case <-time.After(wait):
			case <-s.ctx.Done():
			}
			wait = min(retryWaitMax, 2*wait)
		default:
			if errors.Is(err, errDrained) {
				err = fmt.Errorf("source of plugin %q: %w", s.p.options.Name, ErrClosed)
			}
			s.mu.Lock()
			s.mu.err = err
			s.mu.Unlock()
			return
		}
	}
}

// stream runs one stream to its end.
func (s *Source) stream(in *instance) (opened bool, err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	st, err := in.rpc.Source(ctx)
	if err != nil {
		return false, s.p.streamFault(in, "source", err)
	}
	s.mu.Lock()
	open := &pluginpb.Open{
		Part: s.options.Part, Task: s.options.Task, Config: s.options.Config, Position: s.mu.position,
		Credit: &pluginpb.Credit{Frames: pluginpb.DefaultCreditFrames, Bytes: pluginpb.DefaultCreditBytes},
	}
	s.mu.owed.Frames, s.mu.owed.Bytes = 0, 0
	s.mu.sent = false
	s.mu.Unlock()
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { cancel(s.receive(ctx, st, ready)) })
	err = st.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Open{Open: open}})
	if err == nil {
		select {
		case <-ready:
			opened = true
			err = s.sendAll(ctx, st)
		case <-ctx.Done():
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		cancel(err)
	}
	<-ctx.Done()
	_ = st.CloseSend()
	wg.Wait()
	if s.ctx.Err() != nil {
		return opened, context.Cause(s.ctx)
	}
	return opened, s.p.streamFault(in, "source", context.Cause(ctx))
}

// sendAll sends credits, commits and the drain as they come up.
func (s *Source) sendAll(ctx context.Context, st clientStream) error {
	drained := false
	for {
		s.mu.Lock()
		var out []*pluginpb.ToPlugin
		if s.mu.owed.Frames > 0 {
			c := &pluginpb.Credit{Frames: s.mu.owed.Frames, Bytes: s.mu.owed.Bytes}
			s.mu.owed.Frames, s.mu.owed.Bytes = 0, 0
			out = append(out, &pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Credit{Credit: c}})
		}
		if s.mu.commit != nil && !s.mu.sent {
			s.mu.sent = true
			out = append(out, &pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Commit{Commit: s.mu.commit}})
		}
		if s.mu.draining && !drained {
			drained = true
			m := &pluginpb.Drain{TimeoutMs: drainTimeout.Milliseconds()}
			out = append(out, &pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Drain{Drain: m}})
		}
		s.mu.Unlock()
		for _, m := range out {
			if err := st.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// receive handles what the plugin says until the stream ends.
func (s *Source) receive(ctx context.Context, st clientStream, ready chan struct{}) error {
	var join pluginpb.Joiner
	opened := false
	for {
		m, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it ended the stream", ErrProtocol)
		} else if err != nil {
			return err
		}
		switch x := m.Msg.(type) {
		case *pluginpb.FromPlugin_Opened:
			if opened {
				return fmt.Errorf("%w: opened twice", ErrProtocol)
			}
			opened = true
			close(ready)
			select {
			case <-s.opened:
			default:
				close(s.opened)
			}
		case *pluginpb.FromPlugin_Records:
			frame, done, e := join.Add(x.Records.Seq, x.Records.Frame, x.Records.More)
			if e != nil {
				return fmt.Errorf("%w: %w", ErrProtocol, e)
			}
			if done {
				err = s.onRecords(ctx, frame, x.Records)
			}
		case *pluginpb.FromPlugin_Ack:
			s.onAck(x.Ack.Seq)
		case *pluginpb.FromPlugin_Drained:
			return errDrained
		case *pluginpb.FromPlugin_Failure:
			return s.p.failure("source", x.Failure)
		case *pluginpb.FromPlugin_Log:
			s.p.onLog(s.options.Part, x.Log)
		case *pluginpb.FromPlugin_Output:
			s.p.output(s.options.Part, x.Output.Data)
		}
		if err != nil {
			return err
		}
	}
}

func (s *Source) onRecords(ctx context.Context, frame []byte, m *pluginpb.Records) error {
	records, err := pluginpb.Decode(frame)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	var r Results
	if err := r.addErrors(m.Errors, len(records)); err != nil {
		return err
	}
	s.mu.Lock()
	ended := s.mu.end
	s.mu.Unlock()
	if len(records) > 0 || len(m.Position) > 0 && !ended {
		b := &SourceBatch{Records: records, Errors: r.errs, Position: m.Position, frame: frame}
		if err := s.deliver(ctx, b); err != nil {
			return err
		}
	}
	s.mu.Lock()
	if len(m.Position) > 0 { // not before the batch is safe in the queue
		s.mu.position = m.Position
	}
	s.mu.end = ended || m.End
	s.mu.Unlock()
	if m.End && !ended {
		return s.deliver(ctx, nil)
	}
	return nil
}

// deliver passes b to Read. Credits bound what waits, but for a life of the plugin that ended.
func (s *Source) deliver(ctx context.Context, b *SourceBatch) error {
	select {
	case s.batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Source) onAck(seq uint64) {
	s.mu.Lock()
	s.mu.ackSeq = max(s.mu.ackSeq, seq)
	if s.mu.commit != nil && s.mu.commit.Seq <= seq {
		s.mu.commit = nil
	}
	s.mu.Unlock()
	signal(s.acked)
}
