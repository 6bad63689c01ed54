package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/core/server/admin"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/query"
)

// endpoints are what a process with pipelines serves beside the metrics.
func (m *pipelineMetrics) endpoints(
	source query.Source, open bool, logger *slog.Logger,
) map[string]http.Handler {
	state := query.Handler(query.HandlerOptions{Source: source, Open: open, Logger: logger})
	return map[string]http.Handler{
		"GET /v1/pipelines": http.HandlerFunc(m.serveStatus), query.Root: state,
	}
}

// serveStatus answers with how the pipelines in this process do.
func (m *pipelineMetrics) serveStatus(w http.ResponseWriter, _ *http.Request) {
	all := m.running()
	if all == nil {
		all = []deploy.Status{}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(all) // the client has gone then
}

// listenHTTP takes the address of a worker's endpoints. One that was not asked for gives way to
// that of a node on the same machine.
func (a *app) listenHTTP(ctx context.Context) (net.Listener, error) {
	address := a.settings.GetString("http")
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, output.Usage("BAD_ADDRESS", fmt.Sprintf("%q is not host:port", address)).
			WithCause(err).WithDo("write it like 127.0.0.1:9080, or 127.0.0.1:0 for a free port")
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && address == defaultHTTP {
		l, err = config.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, output.Environment("CANNOT_LISTEN", "cannot listen on "+address).WithCause(err).
			WithDo("choose another with --http, such as 127.0.0.1:0")
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() &&
		!a.settings.GetBool("insecure") {
		return nil, errors.Join(output.Usage("NO_AUTHENTICATION",
			"other machines could read the metrics at "+address+" without saying who they are").
			WithDo("listen on 127.0.0.1, or say --insecure"), l.Close())
	}
	return l, nil
}

// serveHTTP answers at l until the function it returns is called.
func serveHTTP(l net.Listener, o admin.Options) (stop func()) {
	logger, server := o.Logger, admin.New(o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); err != nil {
			logger.Error("HTTP endpoints ended", "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			logger.Warn("HTTP endpoints did not end well", "error", err)
		}
		<-done
	}
}
