package command

import (
	"context"
	"io"
	"log/slog"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

// newLogger writes text for people and JSON for collectors, as format says.
func newLogger(w io.Writer, level slog.Level, format string) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: deploy.ReadableAttr}
	if format == "auto" {
		if format = "json"; output.IsTerminal(w) {
			format = "text"
		}
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, output.Usage("BAD_LOG_FORMAT", "unknown log format "+format).
		WithDo("use text, json or auto")
}

func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return 0, output.Usage("BAD_LEVEL", "unknown log level "+text).
			WithDo("use debug, info, warn or error")
	}
	return level, nil
}

// pipelineLog passes everything on to its handler, and what concerns one pipeline also to that
// pipeline's own log, which `pipeline logs` shows.
type pipelineLog struct {
	slog.Handler
	of func(pipeline string) slog.Handler
}

// Enabled implements slog.Handler: the pipeline's own log takes more than the process's may.
func (l pipelineLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// Handle implements slog.Handler.
func (l pipelineLog) Handle(ctx context.Context, r slog.Record) error {
	var name string
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "pipeline" {
			name = a.Value.String()
		}
		return name == ""
	})
	if name != "" {
		_ = l.of(name).Handle(ctx, r.Clone()) // it is sent in the background, and may be lost
	}
	if l.Handler.Enabled(ctx, r.Level) {
		return l.Handler.Handle(ctx, r)
	}
	return nil
}
