package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Bounds of what a source sends at once.
const (
	sourceRecords = 1000
	sourceBytes   = 1 << 20
)

// SourceReader is a source of one task. Its methods are never called concurrently. C is its
// configuration, P its position: a struct that marshals to JSON and says where to go on.
//
// From the same position a source must read the same records in the same order, as far as the
// system it reads allows; then what it feeds the log is exact across crashes.
type SourceReader[C, P any] interface {
	// Open starts at position, nil for the very start.
	Open(ctx Ctx, config C, position *P) error
	// Read adds what there is to out, until out.Full, and sets the position after it. It waits for
	// data, but returns when ctx ends: that happens for a Commit or a Drain, and Read is called
	// again. io.EOF says that a bounded source is done; what was added still counts. Any other error
	// ends the stream; Retryable lets the host open it again.
	Read(ctx Ctx, out *Out[P]) error
	// Commit says that all up to position is durable in the log.
	Commit(ctx Ctx, position P) error
	// Close releases what Open took.
	Close() error
}

// Out collects what a source read.
type Out[P any] struct {
	enc      pluginpb.Encoder
	errs     []*pluginpb.RecordError
	position *P
	dirty    bool // position was set since the last send
}

// Add appends a record; it may be reused afterwards.
func (o *Out[P]) Add(r *Record) { o.enc.Append(&r.r) }

// ClassDecode is the class of a record that a source could not decode.
const ClassDecode = pluginpb.ClassDecode

// Fail appends a record that could not be decoded, its original bytes as value. The pipeline
// decides what happens to it, by class: ClassDecode as a rule, else a short name of the plugin's
// own.
func (o *Out[P]) Fail(r *Record, class string, err error) {
	o.errs = append(o.errs, &pluginpb.RecordError{
		Index: uint32(o.enc.Count()), Class: class, Message: err.Error(),
	})
	o.enc.Append(&r.r)
}

// SetPosition says where to go on after everything added so far.
func (o *Out[P]) SetPosition(p P) { o.position, o.dirty = &p, true }

// Len is the number of records added.
func (o *Out[P]) Len() int { return o.enc.Count() }

// Full says that Read should return.
func (o *Out[P]) Full() bool { return o.enc.Count() >= sourceRecords || o.enc.Len() >= sourceBytes }

// take returns what was added as one message.
func (o *Out[P]) take() (*pluginpb.Records, error) {
	m := &pluginpb.Records{Errors: o.errs}
	if o.position != nil {
		p, err := json.Marshal(o.position)
		if err != nil {
			return nil, fmt.Errorf("position: %w", err)
		}
		m.Position = p
	}
	m.Frame = o.enc.Finish()
	o.errs, o.dirty = nil, false
	return m, nil
}

// source is a SourceReader without its types.
type source interface {
	open(ctx Ctx, position []byte) error
	read(ctx Ctx) (m *pluginpb.Records, err error)
	commit(ctx Ctx, position []byte) error
	close() error
}

// NewSource makes a source part; open makes a reader for each task.
func NewSource[C, P any](name string, open func() SourceReader[C, P]) Part {
	p := newPart[C](name, pluginpb.Kind_KIND_SOURCE)
	p.deterministic = true
	s := p.shape
	p.source = func(config []byte) (source, []*pluginpb.Diagnostic) {
		c, found := decodeConfig[C](s, config)
		if len(found) > 0 {
			return nil, found
		}
		return &typedSource[C, P]{reader: open(), config: c}, nil
	}
	return p
}

type typedSource[C, P any] struct {
	reader SourceReader[C, P]
	config C
	out    Out[P]
}

func decodePosition[P any](b []byte) (*P, error) {
	var p P
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("position %.200q is not one of this source: %w", b, err)
	}
	return &p, nil
}

func (s *typedSource[C, P]) open(ctx Ctx, position []byte) error {
	if len(position) == 0 {
		return s.reader.Open(ctx, s.config, nil)
	}
	p, err := decodePosition[P](position)
	if err != nil {
		return err
	}
	return s.reader.Open(ctx, s.config, p)
}

func (s *typedSource[C, P]) read(ctx Ctx) (*pluginpb.Records, error) {
	err := s.reader.Read(ctx, &s.out)
	if s.out.enc.Len() > pluginpb.MaxFrameBytes {
		return nil, fmt.Errorf("%d records read at once take %d bytes: %w",
			s.out.Len(), s.out.enc.Len(), pluginpb.ErrFrameTooLarge)
	}
	if s.out.Len() == 0 && !s.out.dirty {
		return nil, err
	}
	m, e := s.out.take()
	if e != nil {
		return nil, e
	}
	return m, err
}

func (s *typedSource[C, P]) commit(ctx Ctx, position []byte) error {
	p, err := decodePosition[P](position)
	if err != nil {
		return err
	}
	return s.reader.Commit(ctx, *p)
}

func (s *typedSource[C, P]) close() error { return s.reader.Close() }

// requests is what the host asked of a source and Read has to stop for.
type requests struct {
	mu struct {
		sync.Mutex
		commit *pluginpb.Commit   // the newest one
		drain  bool               // no more records are wanted
		gone   error              // the stream ended
		stop   context.CancelFunc // of the Read that runs, or of the wait for a request
	}
}

// receive notes what comes from the host until the stream ends.
func (q *requests) receive(s *session) {
	for {
		m, err := s.stream.Recv()
		q.mu.Lock()
		stop := q.mu.stop
		switch x := m.GetMsg().(type) {
		case *pluginpb.ToPlugin_Commit:
			q.mu.commit = x.Commit
		case *pluginpb.ToPlugin_Drain:
			q.mu.drain = true
		case *pluginpb.ToPlugin_Credit:
			s.window.Grant(x.Credit)
			stop = nil
		default:
			if err != nil {
				q.mu.gone = err
			} else {
				stop = nil
			}
		}
		q.mu.Unlock()
		if stop != nil {
			stop()
		}
		if err != nil {
			return
		}
	}
}

// next returns a context for the next Read and the commit to do first.
func (q *requests) next(parent context.Context) (
	ctx context.Context, stop context.CancelFunc, commit *pluginpb.Commit, done bool, err error,
) {
	ctx, stop = context.WithCancel(parent)
	q.mu.Lock()
	defer q.mu.Unlock()
	commit, q.mu.commit = q.mu.commit, nil
	q.mu.stop = stop
	return ctx, stop, commit, q.mu.drain, q.mu.gone
}

// runSource serves one Source stream.
func runSource(s *session, part Part) error {
	src, found := part.source(s.open.Config)
	if len(found) > 0 {
		return s.failConfig(found)
	}
	base := s.stream.Context()
	if err := src.open(s.ctx(base), s.open.Position); err != nil {
		return s.fail("open", err, 0)
	}
	var q requests
	err := s.opened()
	if err == nil {
		go q.receive(s)
		err = s.readAll(src, &q)
	}
	if e := src.close(); e != nil && err == nil {
		s.ctx(base).Log().Warn("close source", "error", e)
	}
	if err != nil {
		return err
	}
	return s.drained()
}

// readAll reads until the host drains the source; nil means that it did.
func (s *session) readAll(src source, q *requests) error {
	base := s.stream.Context()
	var seq uint64
	ended := false
	for {
		ctx, stop, commit, drain, gone := q.next(base)
		if gone != nil {
			stop()
			if errors.Is(gone, io.EOF) {
				return nil
			}
			return gone
		}
		if commit != nil {
			stop()
			if err := s.commit(src, commit); err != nil {
				return err
			}
			continue
		}
		if drain {
			stop()
			return nil
		}
		if ended {
			<-ctx.Done() // for the next request, or the end of the stream
			stop()
			continue
		}
		m, err := src.read(s.ctx(ctx))
		interrupted := ctx.Err() != nil
		stop()
		if ended = errors.Is(err, io.EOF); ended && m == nil {
			m = &pluginpb.Records{}
		}
		if m != nil {
			seq++
			m.Seq, m.End = seq, ended
			if err := s.sendRecords(m, src, q); err != nil {
				return err
			}
		}
		if err != nil && !ended && !interrupted {
			if e := s.fail("read", err, 0); e != nil {
				return e
			}
			return err
		}
	}
}

func (s *session) commit(src source, c *pluginpb.Commit) error {
	if err := src.commit(s.ctx(s.stream.Context()), c.Position); err != nil {
		if e := s.fail("commit", err, 0); e != nil {
			return e
		}
		return err
	}
	return s.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Ack{Ack: &pluginpb.Ack{Seq: c.Seq}}})
}

// sendRecords waits for credits and sends m in pieces. Commits are done meanwhile: the host may
// grant credits only after one. With a drain m is not wanted any more.
func (s *session) sendRecords(m *pluginpb.Records, src source, q *requests) error {
	for !s.window.TryTake(len(m.Frame)) {
		ctx, stop, commit, drain, gone := q.next(s.stream.Context())
		switch {
		case gone != nil || drain:
			stop()
			return nil // readAll looks at it
		case commit != nil:
			stop()
			if err := s.commit(src, commit); err != nil {
				return err
			}
			continue
		}
		select {
		case <-s.window.Wake():
		case <-ctx.Done():
		}
		stop()
	}
	return pluginpb.Split(m.Frame, func(piece []byte, more bool) error {
		r := &pluginpb.Records{Seq: m.Seq, Frame: piece, More: more}
		if !more {
			r.Errors, r.Position, r.End = m.Errors, m.Position, m.End
		}
		return s.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Records{Records: r}})
	})
}
