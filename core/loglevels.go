package core

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/millstream-io/millstream/core/server"
)

// Names of the loggers, as BROKER_LOGGER resources show them. A logger without a level of its own
// has that of root.
const (
	loggerRoot       = "root"
	loggerBroker     = "core"
	loggerController = "core.controller"
	loggerGroup      = "core.group"
	loggerReplica    = "core.replica"
	loggerServer     = "core.server"
	loggerStorage    = "core.storage"
	loggerTxn        = "core.txn"
)

var loggerNames = []string{loggerRoot, loggerBroker, loggerController, loggerGroup, loggerReplica,
	loggerServer, loggerStorage, loggerTxn}

// Kafka's levels in slog's.
var levelByName = map[string]slog.Level{
	"TRACE": slog.LevelDebug - 4, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo,
	"WARN": slog.LevelWarn, "ERROR": slog.LevelError, "FATAL": slog.LevelError + 4,
}

// logLevels are the levels of the loggers, changed by administrators, kept in memory only.
type logLevels struct {
	base slog.Handler

	mu struct {
		sync.RWMutex
		own map[string]string // levels by logger, root always among them
	}
}

var _ server.LogLevels = (*logLevels)(nil)

// newLogLevels begins with the level that base lets through for all.
func newLogLevels(base slog.Handler) *logLevels {
	l := &logLevels{base: base}
	names := slices.SortedFunc(maps.Keys(levelByName), func(a, b string) int {
		return int(levelByName[a] - levelByName[b])
	})
	l.mu.own = map[string]string{loggerRoot: names[len(names)-1]}
	for _, name := range names {
		if base.Enabled(context.Background(), levelByName[name]) {
			l.mu.own[loggerRoot] = name
			break
		}
	}
	return l
}

// Levels implements server.LogLevels.
func (l *logLevels) Levels() map[string]string {
	levels := make(map[string]string, len(loggerNames))
	for _, name := range loggerNames {
		levels[name] = l.level(name)
	}
	return levels
}

// Set implements server.LogLevels.
func (l *logLevels) Set(logger, level string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if level == "" {
		delete(l.mu.own, logger)
		return
	}
	l.mu.own[logger] = level
}

func (l *logLevels) level(logger string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if level, ok := l.mu.own[logger]; ok {
		return level
	}
	return l.mu.own[loggerRoot]
}

// logger returns the logger of that name.
func (l *logLevels) logger(name string) *slog.Logger {
	return slog.New(&leveled{levels: l, name: name, next: l.base})
}

// leveled lets through what its logger's level allows; the level of next does not count.
type leveled struct {
	levels *logLevels
	name   string
	next   slog.Handler
}

// Enabled implements slog.Handler.
func (h *leveled) Enabled(_ context.Context, level slog.Level) bool {
	return level >= levelByName[h.levels.level(h.name)]
}

// Handle implements slog.Handler.
func (h *leveled) Handle(ctx context.Context, r slog.Record) error { return h.next.Handle(ctx, r) }

// WithAttrs implements slog.Handler.
func (h *leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &leveled{levels: h.levels, name: h.name, next: h.next.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *leveled) WithGroup(name string) slog.Handler {
	return &leveled{levels: h.levels, name: h.name, next: h.next.WithGroup(name)}
}
