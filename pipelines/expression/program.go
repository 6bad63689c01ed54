package expression

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/expr-lang/expr/file"
)

// EvalError says that an expression could not give a result for a record. Class "expr".
type EvalError struct {
	Source string
	// Offset is the character of Source at which it failed.
	Offset  int
	Message string
}

// Error is the message with the expression.
func (e *EvalError) Error() string { return fmt.Sprintf("%s in %q", e.Message, e.Source) }

func (p *Program) fail(message string, args ...any) error {
	return &EvalError{Source: p.source, Message: fmt.Sprintf(message, args...)}
}

// Value runs the program. Objects and lists in the result may be shared with the Env until its
// next Reset; strings and numbers are the caller's. The error is a *DecodeError or *EvalError.
func (p *Program) Value(e *Env) (any, error) {
	if p.isFixed {
		return p.fixed, nil
	}
	if p.code != nil && p.only == nil {
		o, err := p.eval(e)
		if err != nil || o.kind != opBail {
			return o.value(), err
		}
	}
	return p.interpret(e)
}

// eval runs the typed code. What comes back is only valid until the record changes; bail says that
// the VM has to run the program.
func (p *Program) eval(e *Env) (operand, error) {
	if p.code == nil {
		return bail, nil
	}
	for _, doc := range p.docs {
		if d := e.document(doc); d.err != nil {
			return bail, d.err
		}
	}
	o := p.code(e)
	if o.kind == opOther {
		return bail, nil
	}
	return o, nil
}

// interpret runs the program in the VM.
func (p *Program) interpret(e *Env) (any, error) {
	fits, err := e.load(p)
	if err != nil {
		return nil, err
	}
	if !fits {
		if err := e.loadWhole(p); err != nil {
			return nil, err
		}
		v, err := e.machine.Run(p.plain, e.whole)
		return v, p.wrap(err)
	}
	if p.only != nil {
		return e.flat[p.only.ident], nil
	}
	v, err := e.machine.Run(p.flat, e.flat)
	if err != nil {
		return nil, p.wrap(err)
	}
	return v, nil
}

// wrap turns an error of the VM, which recovers from panics itself, into ours.
func (p *Program) wrap(err error) error {
	if err == nil {
		return nil
	}
	out := &EvalError{Source: p.source, Message: err.Error()}
	if at, ok := errors.AsType[*file.Error](err); ok {
		out.Offset, out.Message = at.From, at.Message
	}
	return out
}

// Bool runs a condition. Anything but true or false is an error, null included: a condition that
// looks at a missing field must say what that means, as in value.flag ?? false.
func (p *Program) Bool(e *Env) (bool, error) {
	if o, err := p.eval(e); err != nil || o.kind == opBool {
		return o.bits != 0, err
	}
	v, err := p.Value(e)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, p.fail("a condition must be true or false, this is %s", describe(v))
	}
	return b, nil
}

// Time runs an expression that gives a time, in ms since the epoch.
func (p *Program) Time(e *Env) (int64, error) {
	v, err := p.Value(e)
	if err != nil {
		return 0, err
	}
	t, ok := v.(time.Time)
	if !ok {
		return 0, p.fail("a time is needed, this is %s", describe(v))
	}
	return t.UnixMilli(), nil
}

// Num is a number that keeps integers exact.
type Num struct {
	Int   int64
	Float float64
	// IsFloat says which of the two it is; Null that it is neither.
	IsFloat, Null bool
}

// Number runs an expression that gives a number or null.
func (p *Program) Number(e *Env) (Num, error) {
	switch o, err := p.eval(e); {
	case err != nil:
		return Num{}, err
	case o.kind == opNull:
		return Num{Null: true}, nil
	case o.isInt():
		return Num{Int: int64(o.bits)}, nil
	case o.kind == opFloat:
		return Num{Float: o.float(), IsFloat: true}, nil
	}
	v, err := p.Value(e)
	if err != nil {
		return Num{}, err
	}
	switch v := v.(type) {
	case nil:
		return Num{Null: true}, nil
	case int64:
		return Num{Int: v}, nil
	case int:
		return Num{Int: int64(v)}, nil
	case float64:
		return Num{Float: v, IsFloat: true}, nil
	}
	return Num{}, p.fail("a number is needed, this is %s", describe(v))
}

// AppendKey runs an expression and appends the result as record key. null is true for null.
func (p *Program) AppendKey(dst []byte, e *Env) (key []byte, null bool, err error) {
	o, err := p.eval(e)
	if err != nil {
		return dst, false, err
	}
	if o.kind != opBail {
		if key, null, err = o.appendKey(dst); err != nil {
			return dst, false, p.fail("%v", err)
		}
		return key, null, nil
	}
	v, err := p.Value(e)
	if err != nil {
		return dst, false, err
	}
	if key, null, err = AppendKey(dst, v); err != nil {
		return dst, false, p.fail("%v", err)
	}
	return key, null, nil
}

// AppendJSON runs an expression and appends the result as JSON. A path is copied as it came in;
// an object literal is written in the order of the source.
func (p *Program) AppendJSON(dst []byte, e *Env) ([]byte, error) {
	if p.fields != nil {
		return appendFields(dst, p.fields, e)
	}
	if p.only != nil && p.only.kind == namePath {
		d := e.document(p.only.doc)
		if d.err != nil {
			return dst, d.err
		}
		if at, fits := resolve(d.spans, p.only); fits {
			if at.kind == 0 || at.end == 0 {
				return append(dst, "null"...), nil
			}
			return append(dst, d.data[at.start:at.end]...), nil
		}
	}
	o, err := p.eval(e)
	if err != nil {
		return dst, err
	}
	if o.kind != opBail {
		out, err := o.appendJSON(dst)
		if err != nil {
			return dst, p.fail("%v", err)
		}
		return out, nil
	}
	v, err := p.Value(e)
	if err != nil {
		return dst, err
	}
	out, err := (&encoder{from: e.from}).append(dst, v, 0)
	if err != nil {
		return dst, p.fail("%v", err)
	}
	return out, nil
}

// Items runs an expression that gives a list and calls fn with each item as JSON. item is valid
// during the call.
func (p *Program) Items(e *Env, fn func(item []byte) error) error {
	v, err := p.Value(e)
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		return p.fail("a list is needed, this is %s", describe(v))
	}
	var buf []byte
	for _, item := range list {
		buf, err = (&encoder{from: e.from}).append(buf[:0], item, 0)
		if err != nil {
			return p.fail("%v", err)
		}
		if err := fn(buf); err != nil {
			return err
		}
	}
	return nil
}

// Signature is a text that is equal for programs that do the same: the source, with the values of
// the variables it uses.
func (p *Program) Signature() string {
	out := strconv.Quote(p.source)
	for _, v := range p.set.scope.Vars {
		if slices.ContainsFunc(p.names, func(n *name) bool {
			return n.kind == nameVars || n.kind == nameVar && n.arg == v.Name
		}) {
			out += fmt.Sprintf(",%s=%#v", v.Name, v.Value)
		}
	}
	return out
}
