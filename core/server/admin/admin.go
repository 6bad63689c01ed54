package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/millstream-io/millstream/core/metrics"
)

// Options are what the endpoints answer from.
type Options struct {
	// Healthy returns why the broker cannot work, nil when it can. Nil is always healthy.
	Healthy func() error
	// Ready returns why clients are not served, nil when they are. Nil is always ready.
	Ready func() error
	// Sources are what /metrics tells, before the Go runtime and the process.
	Sources []metrics.Source
	// Handlers are served too, by pattern.
	Handlers map[string]http.Handler
	// Logger takes errors of the HTTP server; nil discards them.
	Logger *slog.Logger
}

// Server serves the endpoints.
type Server struct {
	http http.Server
}

// Time limits of the HTTP server; a metrics page takes milliseconds.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second // profiles extend it
	idleTimeout  = 2 * time.Minute
	headerBytes  = 16 << 10
)

// New makes a server; it touches no socket.
func New(opts Options) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", check(opts.Healthy))
	mux.Handle("GET /readyz", check(opts.Ready))
	mux.Handle("GET /metrics", &page{sources: opts.Sources, rest: registry, log: opts.Logger})
	for pattern, handler := range opts.Handlers {
		mux.Handle(pattern, handler)
	}
	addProfiles(mux)
	return &Server{http: http.Server{
		Handler: forThisHost(mux), ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelWarn),
	}}
}

// check answers 200 "ok", or 503 with the reason.
func check(reason func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if reason != nil {
			if err := reason(); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, err.Error()+"\n")
				return
			}
		}
		_, _ = io.WriteString(w, "ok\n")
	})
}

// Serve answers requests from l until Close. It returns nil after Close.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

// Close stops the server; requests that are being answered have until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("close HTTP server: %w", errors.Join(err, s.http.Close()))
	}
	return nil
}
