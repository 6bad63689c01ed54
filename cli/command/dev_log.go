package command

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// devLog shows log lines among the others of dev, as notes for the person who sits there. The
// whole of them is in `pipeline logs`.
type devLog struct {
	screen *devScreen
	level  slog.Level
	attrs  []slog.Attr
}

// toldAnyway are lines about what the screen says in full, with what to do.
var toldAnyway = []string{"pipeline failed", "task failed"}

// Enabled implements slog.Handler.
func (l devLog) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }

// Handle implements slog.Handler.
func (l devLog) Handle(_ context.Context, r slog.Record) error {
	if l.level > slog.LevelInfo && slices.Contains(toldAnyway, r.Message) {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %s", strings.ToLower(r.Level.String()), r.Message)
	add := func(a slog.Attr) bool {
		if a.Key != "pipeline" { // dev runs one
			fmt.Fprintf(&b, "  %s=%s", a.Key, a.Value)
		}
		return true
	}
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.screen.note("%s", readable([]byte(b.String())))
	return nil
}

// WithAttrs implements slog.Handler.
func (l devLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.attrs = append(slices.Clone(l.attrs), attrs...)
	return l
}

// WithGroup implements slog.Handler; nothing here has groups.
func (l devLog) WithGroup(string) slog.Handler { return l }
