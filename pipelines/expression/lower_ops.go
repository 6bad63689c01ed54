package expression

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

// The operators as expr's VM has them (vm/runtime), for the kinds of operands there are. What is
// an error there, or a case that is not here, bails.

func not(o operand) operand {
	if o.kind != opBool {
		return bail
	}
	return boolOperand(o.bits == 0)
}

// equal compares numbers as integers when both are, else as float64; values of different types
// are different.
func equal(a, b operand) operand {
	switch {
	case a.kind == opBail || b.kind == opBail:
		return bail
	case a.kind == opOther || b.kind == opOther:
		if a.kind == opNull || b.kind == opNull {
			return boolOperand(false)
		}
		return bail
	case a.isInt() && b.isInt():
		return boolOperand(a.bits == b.bits)
	case a.isNumber() && b.isNumber():
		return boolOperand(a.float() == b.float())
	case a.kind != b.kind:
		return boolOperand(false)
	case a.kind == opText:
		return boolOperand(a.text == b.text)
	}
	return boolOperand(a.bits == b.bits)
}

// ordered says whether a comes before b: less, and or equal, are the results for a < b and a == b.
func ordered(a, b operand, less, orEqual bool) operand {
	switch {
	case a.isInt() && b.isInt():
		x, y := int64(a.bits), int64(b.bits)
		return boolOperand(x < y && less || x == y && orEqual)
	case a.isNumber() && b.isNumber():
		x, y := a.float(), b.float()
		return boolOperand(x < y && less || x == y && orEqual)
	case a.kind == opText && b.kind == opText:
		return boolOperand(a.text < b.text && less || a.text == b.text && orEqual)
	}
	return bail
}

func add(a, b operand) operand {
	switch {
	case a.isInt() && b.isInt():
		return intOperand(int(a.bits + b.bits))
	case a.isNumber() && b.isNumber():
		return floatOperand(a.float() + b.float())
	case a.kind == opText && b.kind == opText:
		return textOperand(a.text + b.text)
	}
	return bail
}

func subtract(a, b operand) operand {
	switch {
	case a.isInt() && b.isInt():
		return intOperand(int(a.bits - b.bits))
	case a.isNumber() && b.isNumber():
		return floatOperand(a.float() - b.float())
	}
	return bail
}

func multiply(a, b operand) operand {
	switch {
	case a.isInt() && b.isInt():
		return intOperand(int(a.bits * b.bits))
	case a.isNumber() && b.isNumber():
		return floatOperand(a.float() * b.float())
	}
	return bail
}

func divide(a, b operand) operand {
	if !a.isNumber() || !b.isNumber() {
		return bail
	}
	return floatOperand(a.float() / b.float())
}

func modulo(a, b operand) operand {
	if !a.isInt() || !b.isInt() || b.bits == 0 {
		return bail
	}
	return intOperand(int(a.bits) % int(b.bits))
}

func power(a, b operand) operand {
	if !a.isNumber() || !b.isNumber() {
		return bail
	}
	return floatOperand(math.Pow(a.float(), b.float()))
}

// texts2 asks something of two texts; null on either side is a plain no.
func texts2(a, b operand, ask func(a, b string) bool) operand {
	switch {
	case a.kind == opBail || b.kind == opBail:
		return bail
	case a.kind == opNull || b.kind == opNull:
		return boolOperand(false)
	case a.kind == opText && b.kind == opText:
		return boolOperand(ask(a.text, b.text))
	}
	return bail
}

// builtinOps are the functions of one argument that typed code has.
var builtinOps = map[string]func(o operand) operand{
	"len": func(o operand) operand {
		if o.kind != opText {
			return bail
		}
		return intOperand(utf8.RuneCountInString(o.text))
	},
	"abs": func(o operand) operand {
		switch {
		case o.kind == opFloat && o.float() < 0:
			return floatOperand(-o.float())
		case o.isInt() && int64(o.bits) < 0:
			return operand{kind: o.kind, bits: -o.bits}
		case o.isNumber():
			return o
		}
		return bail
	},
	"floor": func(o operand) operand { return rounded(o, math.Floor) },
	"ceil":  func(o operand) operand { return rounded(o, math.Ceil) },
	"round": func(o operand) operand { return rounded(o, math.Round) },
	"float": func(o operand) operand {
		if !o.isNumber() {
			return bail
		}
		return floatOperand(o.float())
	},
	"int": func(o operand) operand {
		switch {
		case o.isInt():
			return operand{kind: opInt, bits: o.bits}
		case o.kind == opFloat:
			return intOperand(int(o.float()))
		}
		return bail
	},
	"upper": func(o operand) operand { return changed(o, strings.ToUpper) },
	"lower": func(o operand) operand { return changed(o, strings.ToLower) },
	"trim":  func(o operand) operand { return changed(o, strings.TrimSpace) },
}

func rounded(o operand, by func(float64) float64) operand {
	switch {
	case o.kind == opFloat:
		return floatOperand(by(o.float()))
	case o.isInt():
		return floatOperand(o.float())
	}
	return bail
}

func changed(o operand, by func(string) string) operand {
	if o.kind != opText {
		return bail
	}
	return textOperand(by(o.text))
}

func (l *lowering) builtin(n *ast.BuiltinNode) code {
	op := builtinOps[n.Name]
	if op == nil || len(n.Arguments) != 1 {
		return nil
	}
	in := l.code(n.Arguments[0])
	if in == nil {
		return nil
	}
	return func(e *Env) operand { return op(in(e)) }
}

// windowTime is window.start.UnixMilli() or the same of window.end: how results name their window
// by a number.
func (l *lowering) windowTime(n *ast.CallNode) code {
	member, ok := n.Callee.(*ast.MemberNode)
	if !ok || len(n.Arguments) > 0 {
		return nil
	}
	method, named := member.Property.(*ast.StringNode)
	of, flat := member.Node.(*ast.IdentifierNode)
	if !named || !flat || method.Value != "UnixMilli" || l.set.names[of.Value] == nil {
		return nil
	}
	switch l.set.names[of.Value].kind {
	case nameWindowStart:
		return func(e *Env) operand { return int64Operand(e.rec.WindowStart) }
	case nameWindowEnd:
		return func(e *Env) operand { return int64Operand(e.rec.WindowEnd) }
	}
	return nil
}
