package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Bounds of what a plugin may write into the host's log.
const (
	logLineBytes   = 8 << 10 // longer lines are cut
	logBurst       = 500     // lines at once
	logPerSecond   = 200     // lines after that
	tailLines      = 30      // kept for error messages
	tailLineBytes  = 512
	errorTailLines = 12 // shown in one error message
)

// pluginLog is where the output of one plugin goes: into the host's logger, bounded in rate and
// size, and the last lines are kept for error messages.
type pluginLog struct {
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		tokens     float64
		refilled   time.Time
		suppressed int
		tail       []string
	}
}

func newPluginLog(logger *slog.Logger) *pluginLog {
	l := &pluginLog{logger: logger}
	l.mu.tokens, l.mu.refilled = logBurst, time.Now()
	return l
}

// allow takes one token; suppressed is how many lines were left out before this one.
func (l *pluginLog) allow() (ok bool, suppressed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.mu.tokens = min(logBurst, l.mu.tokens+now.Sub(l.mu.refilled).Seconds()*logPerSecond)
	l.mu.refilled = now
	if l.mu.tokens < 1 {
		l.mu.suppressed++
		return false, 0
	}
	l.mu.tokens--
	suppressed, l.mu.suppressed = l.mu.suppressed, 0
	return true, suppressed
}

func (l *pluginLog) log(level slog.Level, msg string, attrs ...any) {
	ok, suppressed := l.allow()
	if !ok {
		return
	}
	ctx := context.Background()
	if suppressed > 0 {
		l.logger.Log(ctx, slog.LevelWarn, "plugin log lines suppressed", "lines", suppressed)
	}
	l.logger.Log(ctx, level, cut(msg, logLineBytes), attrs...)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + fmt.Sprintf("... (%d bytes more)", len(s)-n)
}

func (l *pluginLog) remember(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.tail) == tailLines {
		l.mu.tail = append(l.mu.tail[:0], l.mu.tail[1:]...)
	}
	l.mu.tail = append(l.mu.tail, cut(line, tailLineBytes))
}

// reset forgets the lines of the process before.
func (l *pluginLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.tail = nil
}

// last returns the first lines of a panic if there was one, else the last lines printed.
func (l *pluginLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.mu.tail
	for i, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.Join(lines[i:min(len(lines), i+errorTailLines)], "\n")
		}
	}
	return strings.Join(lines[max(0, len(lines)-errorTailLines):], "\n")
}

// reason returns the line that best says why the process ended, "" when it printed nothing.
func (l *pluginLog) reason() string {
	line, _, _ := strings.Cut(l.last(), "\n")
	return line
}

// consume logs what r gives line by line until its end. Lines without end are cut, not collected.
func (l *pluginLog) consume(r io.Reader, stream string) {
	w := &lineWriter{log: l, stream: stream}
	_, _ = io.Copy(w, r)
	w.flush()
}

// lineWriter splits what is written into log lines. One goroutine writes.
type lineWriter struct {
	log     *pluginLog
	stream  string
	line    []byte
	skipped int
	panics  bool // a panic began: what follows belongs to it
	stacks  bool // its stacks began, which are for debugging; the error has the first of them
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		room := max(0, logLineBytes-len(w.line))
		w.line = append(w.line, part[:min(room, len(part))]...)
		w.skipped += max(0, len(part)-room)
		if i < 0 {
			break
		}
		w.flush()
		p = p[i+1:]
	}
	return n, nil
}

// flush logs the line collected so far.
func (w *lineWriter) flush() {
	line := strings.TrimRight(string(w.line), "\r")
	if w.skipped > 0 {
		line += fmt.Sprintf("... (%d bytes more)", w.skipped)
	}
	w.line, w.skipped = w.line[:0], 0
	if strings.TrimSpace(line) == "" {
		return
	}
	if level, msg, ok := parseHCLog(line); ok {
		w.log.log(level, msg, "stream", w.stream)
		return
	}
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.HasPrefix(line, "SIGQUIT: ") {
		w.panics, w.stacks = true, false
	}
	w.stacks = w.stacks || w.panics && strings.HasPrefix(line, "goroutine ")
	w.log.remember(line)
	level := slog.LevelInfo
	switch {
	case w.stacks:
		level = slog.LevelDebug
	case w.panics:
		level = slog.LevelError
	}
	w.log.log(level, line, "stream", w.stream)
}

// parseHCLog reads a JSON line of go-plugin's own logger.
func parseHCLog(line string) (level slog.Level, msg string, ok bool) {
	if !strings.HasPrefix(line, "{") {
		return 0, "", false
	}
	var m struct {
		Level   string `json:"@level"`
		Message string `json:"@message"`
		Error   string `json:"error"`
	}
	if json.Unmarshal([]byte(line), &m) != nil || m.Level == "" {
		return 0, "", false
	}
	if m.Error != "" {
		m.Message += ": " + m.Error
	}
	return slogLevel(hclog.LevelFromString(m.Level)), m.Message, true
}

func slogLevel(l hclog.Level) slog.Level {
	switch {
	case l >= hclog.Error:
		return slog.LevelError
	case l == hclog.Warn:
		return slog.LevelWarn
	case l == hclog.Info:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// hclogSink sends what go-plugin itself logs to the host's logger, for debugging only: what
// matters of it is reported by this package.
type hclogSink struct{ log *pluginLog }

func (s hclogSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if level >= hclog.Debug && s.log.logger.Enabled(context.Background(), slog.LevelDebug) {
		s.log.log(slog.LevelDebug, "go-plugin: "+msg, args...)
	}
}

func newHCLog(l *pluginLog) hclog.Logger {
	i := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Debug, Output: io.Discard})
	i.RegisterSink(hclogSink{l})
	return i
}
