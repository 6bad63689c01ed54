package host

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that end a plugin or one of its streams. They are wrapped with the name of the plugin and
// what was seen; compare with errors.Is.
var (
	// ErrStart says that the process did not become a plugin that answers.
	ErrStart = errors.New("plugin does not start")
	// ErrChecksum says that the binary is not the one that was asked for.
	ErrChecksum = errors.New("plugin binary has another checksum")
	// ErrCrashLoop says that the process ended too often; it is not started again.
	ErrCrashLoop = errors.New("plugin keeps crashing")
	// ErrProtocol says that the plugin answered what the protocol does not allow.
	ErrProtocol = errors.New("plugin breaks the protocol")
	// ErrFailed says that the plugin gave up by itself, with sdk.Fatal or while opening.
	ErrFailed = errors.New("plugin failed")
	// ErrClosed says that the plugin or stream was closed.
	ErrClosed = errors.New("plugin is closed")

	// errCrashed says inside this package that the process of a stream ended.
	errCrashed = errors.New("plugin process ended")
	// errRetry says that the plugin asked for its stream to be opened again.
	errRetry = errors.New("plugin asks to be opened again")
	// errDrained ends a stream that was drained.
	errDrained = errors.New("plugin stream drained")
)

// StartError is the reason why a plugin does not start. It is an ErrStart.
type StartError struct {
	Plugin string // name in the pipeline
	Path   string // of the binary
	Reason string
	Output string // the last lines it printed, "" = none
}

// Error names the plugin, the binary, the reason and what was printed.
func (e *StartError) Error() string {
	s := fmt.Sprintf("plugin %q (%s): %s", e.Plugin, e.Path, e.Reason)
	if e.Output != "" {
		s += "; it printed:\n  " + strings.ReplaceAll(e.Output, "\n", "\n  ")
	}
	return s
}

// Unwrap makes it an ErrStart.
func (e *StartError) Unwrap() error { return ErrStart }

// RecordError is what became of a record instead of a result.
type RecordError struct {
	Index     int    // in the batch that was given
	Class     string // "plugin", "plugin_crash", "decode", "too_large" or one of the plugin's own
	Message   string
	Retryable bool // trying it again may help
}

// Error returns the message.
func (e *RecordError) Error() string { return e.Message }

// BuildError is why a plugin's sources do not compile.
type BuildError struct {
	Dir    string
	Errors []CompileError // those with a place
	Output string         // all the go tool printed
}

// CompileError is one finding of the compiler.
type CompileError struct {
	File    string // relative to the directory of the plugin, or absolute outside it
	Line    int
	Col     int // 0 = not known
	Message string
}

// Error returns file:line:col: message.
func (e CompileError) Error() string {
	if e.Col == 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Message)
}

// Error lists the compiler's findings, or all output when it has none.
func (e *BuildError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "build plugin in %s:", e.Dir)
	for _, c := range e.Errors {
		b.WriteString("\n  " + c.Error())
	}
	if len(e.Errors) == 0 {
		b.WriteString("\n  " + strings.ReplaceAll(strings.TrimSpace(e.Output), "\n", "\n  "))
	}
	return b.String()
}
