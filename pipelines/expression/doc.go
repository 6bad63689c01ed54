// Package expression compiles the expressions of a pipeline and runs them on records.
//
// # Path
//
// A Scope says which names an expression may use and what types they have. A Set compiles the
// expressions of one node against a scope: each is parsed and type-checked by expr-lang/expr,
// then every fixed path like value.a.b, headers.x or window.start is replaced by one flat name.
// An Env belongs to one worker and one Set. Env.Reset takes a record; the first program that
// needs the value scans its JSON once for all paths of the set (scan.go), or, if it has the
// skeleton of an earlier one, only compares it with that (shape.go). A program of the common
// subset runs as typed closures over what was found (lower.go). For any other, and where a closure
// bails out, what the program uses is boxed into one reused map, and the expr VM runs. A program
// that is only a path has its bytes copied to the output as they came in.
//
// # Invariants
//
// Every program is a pure function of the record, unless it calls processing_time. A record that
// the flat program cannot serve (a parent that is null or no object, a value that is no object)
// is run by a second program over the fully decoded value: both give the same result or the
// same error. Typed code gives the VM's result, of the same type, or bails out; errors are the
// VM's. JSON with a key that occurs twice in one object, or that is not UTF-8, is a decode error,
// so that no two readers of a record can disagree. Integers stay integers, exactly.
//
// # Goroutines
//
// None. A Scope, Set, Program and what is built from them are immutable and shared after
// compilation; an Env is used by one goroutine at a time.
//
// # Files
//
// type.go scope.go (what names mean), compile.go flatten.go issue.go (compilation), function.go
// (what can be called), record.go env.go program.go (running), lower.go lower_ops.go operand.go
// (typed code), scan.go shape.go decode.go encode.go (JSON), projection.go patch.go template.go
// (new values).
package expression
