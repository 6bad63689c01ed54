package lang

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says how bad a finding is. Only errors keep a pipeline from running.
type Severity string

// The severities, worst first.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one thing to say about a pipeline file, at one place in it.
type Finding struct {
	File string `json:"file"`
	// Line and Col are 1-based and count characters, not bytes. 0 means the file as a whole.
	Line int `json:"line"`
	Col  int `json:"col"`
	// Width is how many characters from Col on are meant, at least 1 when Col is set.
	Width    int      `json:"width,omitempty"`
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Hint says what to do, and is empty when the message says it already.
	Hint string `json:"hint,omitempty"`
}

// String is the finding on one line, without the source line: file:line:col: error[E203]: text.
func (f Finding) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s[%s]: %s", f.File, f.Line, f.Col, f.Severity, f.Code, f.Message)
	if f.Hint != "" {
		s += "  hint: " + f.Hint
	}
	return s
}

// SortFindings puts findings in file order, worst first where they share a place, and drops exact
// repeats.
func SortFindings(list []Finding) []Finding {
	rank := map[Severity]int{Error: 0, Warning: 1, Info: 2}
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(rank[a.Severity], rank[b.Severity]), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(list)
}

// HasErrors reports whether any finding is an error.
func HasErrors(list []Finding) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Severity == Error })
}
