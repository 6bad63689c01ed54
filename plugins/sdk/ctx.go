package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// ErrDrop leaves a record out of the output without an error, when it is returned for it.
var ErrDrop = errors.New("drop this record")

// Ctx is what every function of a plugin gets: the context of the task, which ends when the stream
// does, and the ways to talk to the host.
type Ctx struct {
	context.Context
	log    *slog.Logger
	output io.Writer
}

// Log returns a logger whose lines appear in the host's log, named after plugin and task.
func (c Ctx) Log() *slog.Logger { return c.log }

// Output writes to the standard output of the host, or to its log when it has none to give away.
func (c Ctx) Output() io.Writer { return c.output }

// Drop returns ErrDrop.
func (c Ctx) Drop() error { return ErrDrop }

// Retryable marks err as passing: the host may try the record again, as the pipeline says.
func (c Ctx) Retryable(err error) error { return Retryable(err) }

// Fatal marks err as final: the pipeline stops, its position kept.
func (c Ctx) Fatal(err error) error { return Fatal(err) }

// WithContext returns c bound to ctx.
func (c Ctx) WithContext(ctx context.Context) Ctx {
	c.Context = ctx
	return c
}

type retryableError struct{ error }

func (e retryableError) Unwrap() error { return e.error }

type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// Retryable marks err as passing; nil stays nil.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return retryableError{err}
}

// Fatal marks err as final: the pipeline stops, its position kept; nil stays nil.
// Fatal(Retryable(err)) ends only the stream: the host opens the part again, after a pause, and
// sends again what was not answered.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fatalError{err}
}

func isRetryable(err error) bool {
	var e retryableError
	return errors.As(err, &e)
}

func isFatal(err error) bool {
	var e fatalError
	return errors.As(err, &e)
}

// pointerError is an error at a place in the configuration.
type pointerError struct {
	pointer, message string
}

func (e *pointerError) Error() string { return fmt.Sprintf("%s: %s", e.pointer, e.message) }

// At makes an error about the configuration value at an RFC 6901 JSON pointer, for example
// "/columns/0", to be returned by a Validate method.
func At(pointer, format string, args ...any) error {
	return &pointerError{pointer, fmt.Sprintf(format, args...)}
}
