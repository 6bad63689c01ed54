package expression

import "slices"

// Problem is what kind of thing is wrong with an expression.
type Problem uint8

// The problems.
const (
	// ProblemSyntax: it cannot be parsed.
	ProblemSyntax Problem = iota + 1
	// ProblemUnknownField: an object of known type has no such field.
	ProblemUnknownField
	// ProblemUnknownName: there is no such name or function.
	ProblemUnknownName
	// ProblemType: an operator or function cannot take these types.
	ProblemType
	// ProblemResult: the result is not of the type that is needed.
	ProblemResult
	// ProblemTooLong: it is longer or has more parts than is allowed.
	ProblemTooLong
	// ProblemClock: now() was called, which has no place in a pipeline that can be replayed.
	ProblemClock
	// ProblemProcessingTime: processing_time() was called, a replay will give another result.
	ProblemProcessingTime
	// ProblemNullable: a value that may be null is used where null is an error.
	ProblemNullable
	// ProblemNotYet: the function is part of the language, but not supported yet.
	ProblemNotYet
)

// Issue is one thing to say about an expression. Offset and Width count characters of the source.
type Issue struct {
	Problem Problem
	Offset  int
	Width   int
	Message string
	Hint    string
	// Name is what was not found and Among what there is, for a did-you-mean.
	Name  string
	Among []string
	// Types are the types of Among, where they are known.
	Types map[string]string
	// Warning is true when the expression can run all the same.
	Warning bool
}

// Fatal reports whether any issue keeps the expression from running.
func Fatal(issues []Issue) bool {
	return slices.ContainsFunc(issues, func(i Issue) bool { return !i.Warning })
}
