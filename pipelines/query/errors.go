package query

import (
	"errors"
	"fmt"
	"net/http"
)

// Error is why a question has no answer. It is the body of an HTTP answer, as {"error": ...}.
type Error struct {
	// Code is stable and upper case.
	Code string `json:"code"`
	What string `json:"what"`
	Why  string `json:"why,omitempty"`
	Do   string `json:"do,omitempty"`
	// Elsewhere names the workers to ask instead.
	Elsewhere []Place `json:"elsewhere,omitempty"`

	status int
}

// ErrUnknownPipeline reports a pipeline that does not run in this process.
var ErrUnknownPipeline = errors.New("the pipeline does not run here")

// Codes of errors.
const (
	CodeBadRequest      = "BAD_REQUEST"
	CodeForbidden       = "FORBIDDEN"
	CodeUnknownPipeline = "UNKNOWN_PIPELINE"
	CodeUnknownNode     = "UNKNOWN_STEP"
	CodeNoState         = "NO_STATE"
	CodeRestoring       = "RESTORING"
	CodeLagging         = "LAGGING"
	CodeElsewhere       = "ELSEWHERE"
	CodeTooLong         = "TOO_LONG"
	CodeFailed          = "FAILED"
)

// Error implements error.
func (e *Error) Error() string {
	s := e.What
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}

func refuse(status int, code, format string, args ...any) *Error {
	return &Error{Code: code, What: fmt.Sprintf(format, args...), status: status}
}

func (e *Error) why(format string, args ...any) *Error {
	e.Why = fmt.Sprintf(format, args...)
	return e
}

func (e *Error) do(format string, args ...any) *Error {
	e.Do = fmt.Sprintf(format, args...)
	return e
}

func badRequest(format string, args ...any) *Error {
	return refuse(http.StatusBadRequest, CodeBadRequest, format, args...)
}
