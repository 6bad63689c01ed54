package pluginpb

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// localQueue is how many messages may wait in each direction of an in-process stream. Credits bound
// their bytes.
const localQueue = 16

// Local returns a client that calls srv in this process, over channels. A panic in srv ends that
// stream with codes.Unavailable, as the end of a process would. Streams end with their context.
func Local(srv PluginServer) PluginClient { return localClient{srv} }

type localClient struct{ srv PluginServer }

func (c localClient) Spec(ctx context.Context, in *SpecRequest,
	_ ...grpc.CallOption) (*SpecResponse, error) {
	return c.srv.Spec(ctx, in)
}

func (c localClient) Validate(
	ctx context.Context, in *ValidateRequest, _ ...grpc.CallOption,
) (*ValidateResponse, error) {
	return c.srv.Validate(ctx, in)
}

func (c localClient) Operate(
	ctx context.Context, _ ...grpc.CallOption,
) (grpc.BidiStreamingClient[ToPlugin, FromPlugin], error) {
	return startLocal(ctx, c.srv.Operate), nil
}

func (c localClient) Source(
	ctx context.Context, _ ...grpc.CallOption,
) (grpc.BidiStreamingClient[ToPlugin, FromPlugin], error) {
	return startLocal(ctx, c.srv.Source), nil
}

func (c localClient) Sink(
	ctx context.Context, _ ...grpc.CallOption,
) (grpc.BidiStreamingClient[ToPlugin, FromPlugin], error) {
	return startLocal(ctx, c.srv.Sink), nil
}

// localStream is one stream; localServer is its other end.
type localStream struct {
	ctx      context.Context
	cancel   context.CancelFunc
	to       chan *ToPlugin
	from     chan *FromPlugin
	closeTo  sync.Once
	sendDone chan struct{} // closed by CloseSend
	done     chan struct{} // closed when the server side returned
	err      error         // set before done closes
}

type localServer struct{ s *localStream }

func startLocal(
	ctx context.Context, serve func(grpc.BidiStreamingServer[ToPlugin, FromPlugin]) error,
) *localStream {
	s := &localStream{
		to: make(chan *ToPlugin, localQueue), from: make(chan *FromPlugin, localQueue),
		sendDone: make(chan struct{}), done: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer s.cancel() // after done, so that Recv can tell an end from a cancellation
		defer close(s.done)
		defer func() {
			if p := recover(); p != nil {
				s.err = status.Error(codes.Unavailable, fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		s.err = serve(localServer{s})
	}()
	return s
}

// Send gives m to the server. The frame of a Batch is copied, as a socket would.
func (s *localStream) Send(m *ToPlugin) error {
	if b := m.GetBatch(); b != nil {
		m = &ToPlugin{Msg: &ToPlugin_Batch{Batch: &Batch{
			Seq: b.Seq, More: b.More, Credit: b.Credit,
			Frame: append(GetBuffer(len(b.Frame))[:0], b.Frame...),
		}}}
	}
	select {
	case <-s.done:
		return io.EOF
	default:
	}
	select {
	case s.to <- m:
		return nil
	case <-s.done:
		return io.EOF // as gRPC: the reason comes from Recv
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// Recv returns the server's next message, io.EOF after its regular end, or how it failed.
func (s *localStream) Recv() (*FromPlugin, error) {
	select {
	case m := <-s.from:
		return m, nil
	default:
	}
	select {
	case m := <-s.from:
		return m, nil
	case <-s.done:
	case <-s.ctx.Done():
	}
	select {
	case m := <-s.from: // sent before the end
		return m, nil
	default:
	}
	select {
	case <-s.done:
	default:
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
	if s.err == nil {
		return nil, io.EOF
	}
	return nil, s.err
}

func (s *localStream) CloseSend() error {
	s.closeTo.Do(func() { close(s.sendDone) })
	return nil
}

func (s *localStream) Context() context.Context     { return s.ctx }
func (s *localStream) Header() (metadata.MD, error) { return nil, nil }
func (s *localStream) Trailer() metadata.MD         { return nil }
func (s *localStream) SendMsg(m any) error          { return s.Send(m.(*ToPlugin)) }
func (s *localStream) RecvMsg(any) error            { return errLocalMsg }
func (s localServer) Context() context.Context      { return s.s.ctx }
func (s localServer) SetHeader(metadata.MD) error   { return nil }
func (s localServer) SendHeader(metadata.MD) error  { return nil }
func (s localServer) SetTrailer(metadata.MD)        {}
func (s localServer) SendMsg(m any) error           { return s.Send(m.(*FromPlugin)) }
func (s localServer) RecvMsg(any) error             { return errLocalMsg }

var errLocalMsg = status.Error(codes.Unimplemented, "use Recv on an in-process stream")

// Send gives m to the client, whose property its frame becomes.
func (s localServer) Send(m *FromPlugin) error {
	select {
	case s.s.from <- m:
		return nil
	case <-s.s.ctx.Done():
		return status.FromContextError(s.s.ctx.Err()).Err()
	}
}

// Recv returns the client's next message, or io.EOF after CloseSend.
func (s localServer) Recv() (*ToPlugin, error) {
	select {
	case m := <-s.s.to:
		return m, nil
	default:
	}
	select {
	case m := <-s.s.to:
		return m, nil
	case <-s.s.ctx.Done():
		return nil, status.FromContextError(s.s.ctx.Err()).Err()
	case <-s.s.sendDone:
	}
	select {
	case m := <-s.s.to:
		return m, nil
	default:
		return nil, io.EOF
	}
}
