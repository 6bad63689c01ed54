package command

import (
	"io"
	"log/slog"

	"github.com/millstream-io/millstream/cli/output"
)

// newLogger writes text for people and JSON for collectors.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if output.IsTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return 0, output.Usage("BAD_LEVEL", "unknown log level "+text).
			WithDo("use debug, info, warn or error")
	}
	return level, nil
}
