package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// request is one decoded request on its way through a handler.
type request struct {
	// message is the decoded body. Its byte slices alias the frame, which is never reused for
	// these requests: they may be kept.
	message kmsg.Request
	// version is the version of the request and of its answer.
	version int16
	// clientID is the client's name for itself, "" when it sent none.
	clientID string
	// clientHost is the peer's address without its port.
	clientHost string
	// inMemory tells that the client is in this process.
	inMemory bool
	// client is who asks.
	client *client
	// throttle is how long the client has to wait afterwards, set by the handler.
	throttle time.Duration
}

// handlerFunc answers one request, blocking as long as that takes. ctx ends when the connection
// or the server closes; the answer is then of no use to anyone. An error closes the connection
// without an answer, so it is for requests that cannot be answered, not for failures that have a
// code.
type handlerFunc func(s *Server, ctx context.Context, r *request) (kmsg.Response, error)

// handler is one row of the table of APIs.
type handler struct {
	// key is the API's number.
	key int16
	// min and max are the versions that are advertised, both inclusive.
	min, max int16
	// served is the first version that is really served; it differs from min for Produce only,
	// and 0 stands for min.
	served int16
	// waits tells that it may wait for other clients, so that one which hangs up meanwhile must
	// be noticed.
	waits bool
	// handle answers it; nil for those that conn.go dispatches itself: Produce, Fetch and the login.
	handle handlerFunc
}

// response makes the empty answer of req in its version, with its defaults set.
func response[T kmsg.Response](r *request) T {
	resp := r.message.ResponseKind()
	return resp.(T)
}

// pointer is a pointer to s, for the nullable strings of the protocol.
func pointer(s string) *string { return &s }

// nonNil is b, or an empty slice: where the protocol's bytes are not nullable.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
