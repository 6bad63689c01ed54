package deploy

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// LogHandler gives a slog handler that appends each line, as JSON, to the log topic under the
// pipeline's name. Lines are sent in the background and are lost when the process dies or the
// broker does not take them: a log must not hold up a pipeline.
func (s *Store) LogHandler(pipeline string, level slog.Level) slog.Handler {
	w := logWriter{store: s, key: []byte(pipeline)}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: ReadableAttr})
}

// ReadableAttr writes spans of time as 1.5s, which slog's JSON gives in nanoseconds.
func ReadableAttr(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// logWriter receives one line a call from slog's JSON handler.
type logWriter struct {
	store *Store
	key   []byte
}

func (w logWriter) Write(line []byte) (int, error) {
	value := bytes.TrimSuffix(bytes.Clone(line), []byte("\n"))
	w.store.client.TryProduce(context.Background(),
		&kgo.Record{Topic: LogTopic, Key: w.key, Value: value}, nil)
	return len(line), nil
}

// Tee sends each log record to several handlers.
type Tee []slog.Handler

// Enabled implements slog.Handler.
func (t Tee) Enabled(ctx context.Context, level slog.Level) bool {
	for _, h := range t {
		if h.Enabled(ctx, level) {
			return true
		}
	}
	return false
}

// Handle implements slog.Handler; the first error is reported.
func (t Tee) Handle(ctx context.Context, r slog.Record) error {
	var first error
	for _, h := range t {
		if !h.Enabled(ctx, r.Level) {
			continue
		}
		if err := h.Handle(ctx, r.Clone()); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// WithAttrs implements slog.Handler.
func (t Tee) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make(Tee, len(t))
	for i, h := range t {
		out[i] = h.WithAttrs(attrs)
	}
	return out
}

// WithGroup implements slog.Handler.
func (t Tee) WithGroup(name string) slog.Handler {
	out := make(Tee, len(t))
	for i, h := range t {
		out[i] = h.WithGroup(name)
	}
	return out
}
