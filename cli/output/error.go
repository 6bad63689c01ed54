package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Exit codes. A script may branch on them; they never change meaning.
const (
	ExitOK          = 0   // done
	ExitFailure     = 1   // runtime failure
	ExitUsage       = 2   // wrong flags or arguments, invalid configuration, lint findings
	ExitEnvironment = 3   // unreachable, timeout, port taken, missing toolchain
	ExitVerdict     = 4   // the answer is no: verify mismatch, unhealthy
	ExitConflict    = 5   // somebody else changed it first: stale plan, live group
	ExitNotYet      = 6   // no answer yet: equal as far as the live output has come
	ExitInterrupted = 130 // stopped by Ctrl-C before the work was done
)

// Error is a failure as users see it: what happened, why, and what to do about it.
type Error struct {
	// Code is stable and upper case; `millstream help errors CODE` explains it.
	Code string `json:"code"`
	// What happened, in one sentence that names the thing concerned.
	What string `json:"what"`
	// Why it happened, when it is not obvious.
	Why string `json:"why,omitempty"`
	// Do says what the reader can do, often a command.
	Do string `json:"do,omitempty"`
	// Exit is the process's exit code.
	Exit int `json:"exit"`

	cause error
}

// Failure makes an error with exit code 1.
func Failure(code, what string) *Error { return &Error{Code: code, What: what, Exit: ExitFailure} }

// Usage makes an error with exit code 2.
func Usage(code, what string) *Error { return &Error{Code: code, What: what, Exit: ExitUsage} }

// Environment makes an error with exit code 3.
func Environment(code, what string) *Error {
	return &Error{Code: code, What: what, Exit: ExitEnvironment}
}

// Negative makes an error with exit code 4.
func Negative(code, what string) *Error { return &Error{Code: code, What: what, Exit: ExitVerdict} }

// Conflict makes an error with exit code 5.
func Conflict(code, what string) *Error {
	return &Error{Code: code, What: what, Exit: ExitConflict}
}

// WithWhy returns the error with its reason set.
func (e *Error) WithWhy(why string) *Error { e.Why = why; return e }

// WithDo returns the error with its remedy set.
func (e *Error) WithDo(do string) *Error { e.Do = do; return e }

// WithCause returns the error wrapping cause, whose text becomes the reason if there is none.
func (e *Error) WithCause(cause error) *Error {
	e.cause = cause
	if e.Why == "" && cause != nil {
		e.Why = cause.Error()
	}
	return e
}

// Error implements error.
func (e *Error) Error() string {
	if e.Why != "" {
		return e.What + ": " + e.Why
	}
	return e.What
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.cause }

// Explain turns any error into an [Error]; unknown ones become a plain failure.
func Explain(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &Error{Code: "INTERRUPTED", What: "interrupted", Exit: ExitInterrupted}
	case errors.Is(err, context.DeadlineExceeded):
		return Environment("TIMEOUT", "no answer in time").WithCause(err)
	default:
		return Failure("FAILED", err.Error())
	}
}

// Render writes the error for people.
func (e *Error) Render(w io.Writer) {
	fmt.Fprintf(w, "error[%s]: %s\n", e.Code, indented(e.What))
	if e.Why != "" {
		fmt.Fprintf(w, "  why: %s\n", indented(e.Why))
	}
	if e.Do != "" {
		fmt.Fprintf(w, "  do:  %s\n", indented(e.Do))
	}
}

func indented(s string) string { return strings.ReplaceAll(s, "\n", "\n       ") }
