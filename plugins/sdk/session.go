package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

type stream = grpc.BidiStreamingServer[pluginpb.ToPlugin, pluginpb.FromPlugin]

// logSender sends messages beside the records of a stream.
type logSender interface {
	send(*pluginpb.FromPlugin) error
}

// session is the plugin's end of one stream, from its Open to its end.
type session struct {
	stream stream
	open   *pluginpb.Open
	window *pluginpb.Window // credits for what the plugin sends
	sendMu sync.Mutex       // serialises stream.Send, as gRPC demands; held during it
}

// newSession waits for Open.
func newSession(st stream) (*session, error) {
	m, err := st.Recv()
	if err != nil {
		return nil, err
	}
	open := m.GetOpen()
	if open == nil {
		return nil, status.Error(codes.FailedPrecondition, "the first message of a stream must be Open")
	}
	return &session{stream: st, open: open, window: pluginpb.NewWindow(open.Credit)}, nil
}

func (s *session) send(m *pluginpb.FromPlugin) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	return s.stream.Send(m)
}

// opened tells the host that the part is ready and how much it may send.
func (s *session) opened() error {
	return s.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Opened{Opened: &pluginpb.Opened{
		Credit: &pluginpb.Credit{
			Frames: pluginpb.DefaultCreditFrames, Bytes: pluginpb.DefaultCreditBytes,
		},
	}}})
}

// fail ends the stream with a reason the host shows.
func (s *session) fail(class string, err error, seq uint64) error {
	return s.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Failure{Failure: &pluginpb.Failure{
		Class: class, Message: err.Error(), Retryable: isRetryable(err), Seq: seq,
	}}})
}

// failConfig ends the stream because of its configuration.
func (s *session) failConfig(found []*pluginpb.Diagnostic) error {
	var errs []error
	for _, d := range found {
		errs = append(errs, fmt.Errorf("config %s: %s", d.Pointer, d.Message))
	}
	return s.fail("config", errors.Join(errs...), 0)
}

// drained is the last message of a stream the host drained.
func (s *session) drained() error {
	return s.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Drained{Drained: &pluginpb.Drained{}}})
}

func (s *session) ctx(ctx context.Context) Ctx { return baseContext(ctx, s, s.open.Task) }

// inbound is one thing the host asked for.
type inbound struct {
	seq   uint64
	frame []byte // a whole frame
	drain bool
}

// receiveBatches passes whole batches and at last the drain to out, and grants credits. It ends
// with the stream and closes out; err tells why when that is not the host's regular end.
func (s *session) receiveBatches(out chan<- inbound, err *error) {
	defer close(out)
	var join pluginpb.Joiner
	for {
		m, e := s.stream.Recv()
		if e != nil {
			if !errors.Is(e, io.EOF) {
				*err = e
			}
			return
		}
		var in inbound
		switch x := m.Msg.(type) {
		case *pluginpb.ToPlugin_Batch:
			s.window.Grant(x.Batch.Credit)
			frame, done, e := join.Add(x.Batch.Seq, x.Batch.Frame, x.Batch.More)
			if e != nil {
				*err = status.Error(codes.InvalidArgument, e.Error())
				return
			}
			if !done {
				continue
			}
			in = inbound{seq: x.Batch.Seq, frame: frame}
		case *pluginpb.ToPlugin_Drain:
			in = inbound{drain: true}
		case *pluginpb.ToPlugin_Credit:
			s.window.Grant(x.Credit)
			continue
		default:
			continue // a newer host: what is not known is not needed
		}
		select {
		case out <- in:
		case <-s.stream.Context().Done():
			*err = s.stream.Context().Err()
			return
		}
	}
}

// logHandler is a slog.Handler that sends lines to the host.
type logHandler struct {
	to     logSender
	attrs  []string
	prefix string
}

func newLogger(to logSender, task string) *slog.Logger {
	h := logHandler{to: to}
	if task != "" {
		h.attrs = []string{"task", task}
	}
	return slog.New(h)
}

func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, h.prefix+a.Key, a.Value.Resolve().String())
		return true
	})
	return h.to.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Log{Log: &pluginpb.Log{
		Level: int32(r.Level), Message: r.Message, Attrs: attrs,
	}}})
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		h.attrs = append(h.attrs, h.prefix+a.Key, a.Value.Resolve().String())
	}
	return h
}

func (h logHandler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.prefix += name + "."
	}
	return h
}

// outputWriter sends what is written to the host's standard output.
type outputWriter struct{ to logSender }

func (w outputWriter) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, pluginpb.ChunkBytes) {
		err := w.to.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Output{
			Output: &pluginpb.Output{Data: slices.Clone(piece)},
		}})
		if err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
