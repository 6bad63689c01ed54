package expression

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// lowering turns the syntax tree of a flat program into typed Go closures. They read the spans of
// the scanned record, box nothing and need no map. Where expr's own result could differ from what
// a closure would do (a type it has no case for, a division by zero in %, a value that is no
// condition), the closure bails out, and the VM runs the whole program: so there is one definition
// of every result and of every error, that of expr.
type lowering struct {
	set *Set
}

// code lowers one node; nil means that the node, and with it the program, is left to the VM.
func (l *lowering) code(node ast.Node) code {
	switch n := node.(type) {
	case *ast.NilNode, *ast.BoolNode, *ast.FloatNode, *ast.StringNode:
		return literal(node)
	case *ast.IntegerNode:
		if t := n.Type(); t == nil || t.Kind() == reflect.Int { // else the VM casts it
			return literal(node)
		}
	case *ast.ConstantNode:
		if o := operandOf(n.Value); o.kind != opBail {
			return func(*Env) operand { return o }
		}
	case *ast.IdentifierNode:
		return l.name(n.Value)
	case *ast.ChainNode: // the optional steps are inside the flat name
		if id, ok := n.Node.(*ast.IdentifierNode); ok {
			return l.name(id.Value)
		}
	case *ast.UnaryNode:
		return l.unary(n)
	case *ast.BinaryNode:
		return l.binary(n)
	case *ast.ConditionalNode:
		return l.conditional(n)
	case *ast.CallNode:
		return l.windowTime(n)
	case *ast.BuiltinNode:
		return l.builtin(n)
	}
	return nil
}

func literal(node ast.Node) code {
	var o operand
	switch n := node.(type) {
	case *ast.NilNode:
		o = null
	case *ast.BoolNode:
		o = boolOperand(n.Value)
	case *ast.IntegerNode:
		o = intOperand(n.Value)
	case *ast.FloatNode:
		o = floatOperand(n.Value)
	case *ast.StringNode:
		o = textOperand(n.Value)
	}
	return func(*Env) operand { return o }
}

// name reads a flat name.
func (l *lowering) name(ident string) code {
	n, ok := l.set.names[ident]
	if !ok {
		return nil
	}
	switch n.kind {
	case namePath:
		return pathCode(n)
	case nameText:
		if l.set.docs[n.doc].format != FormatString {
			return nil
		}
		return func(e *Env) operand {
			if data := e.docs[n.doc].data; data != nil {
				return textOperand(view(data))
			}
			return null
		}
	case nameHeader:
		return func(e *Env) operand {
			v, ok := e.rec.header(n.arg)
			if !ok || v == nil {
				return null
			}
			return textOperand(view(v))
		}
	case nameTopic:
		return func(e *Env) operand { return textOperand(e.rec.Topic) }
	case namePartition:
		return func(e *Env) operand { return int64Operand(int64(e.rec.Partition)) }
	case nameOffset:
		return func(e *Env) operand { return int64Operand(e.rec.Offset) }
	case nameVar:
		for _, v := range l.set.scope.Vars {
			if o := operandOf(v.Value); v.Name == n.arg && o.kind != opBail {
				return func(*Env) operand { return o }
			}
		}
	}
	return nil
}

// pathCode reads a path of a document. The program has seen to it that the document is scanned.
func pathCode(n *name) code {
	doc, id := n.doc, n.id
	if len(n.steps) == 1 { // value.a: nothing on the way but the value itself
		return func(e *Env) operand {
			d := &e.docs[doc]
			if d.spans[0].kind != '{' {
				at, fits := resolve(d.spans, n)
				if !fits {
					return bail
				}
				return spanOperand(d.data, at)
			}
			return spanOperand(d.data, d.spans[id])
		}
	}
	return func(e *Env) operand {
		d := &e.docs[doc]
		at, fits := resolve(d.spans, n)
		if !fits {
			return bail
		}
		return spanOperand(d.data, at)
	}
}

func (l *lowering) unary(n *ast.UnaryNode) code {
	in := l.code(n.Node)
	if in == nil {
		return nil
	}
	switch n.Operator {
	case "!", "not":
		return func(e *Env) operand {
			b, ok := in(e).truth()
			if !ok {
				return bail
			}
			return boolOperand(!b)
		}
	case "+":
		return in
	case "-":
		return func(e *Env) operand {
			switch o := in(e); o.kind {
			case opInt, opInt64:
				return operand{kind: o.kind, bits: -o.bits}
			case opFloat:
				return floatOperand(-o.float())
			}
			return bail
		}
	}
	return nil
}

// conditional runs only the arm that the condition takes.
func (l *lowering) conditional(n *ast.ConditionalNode) code {
	when, then, other := l.code(n.Cond), l.code(n.Exp1), l.code(n.Exp2)
	if when == nil || then == nil || other == nil {
		return nil
	}
	return func(e *Env) operand {
		b, ok := when(e).truth()
		switch {
		case !ok:
			return bail
		case b:
			return then(e)
		}
		return other(e)
	}
}

// binaryOps are the operators that need both operands first.
var binaryOps = map[string]func(a, b operand) operand{
	"==": equal, "!=": func(a, b operand) operand { return not(equal(a, b)) },
	"<":  func(a, b operand) operand { return ordered(a, b, true, false) },
	">":  func(a, b operand) operand { return ordered(b, a, true, false) },
	"<=": func(a, b operand) operand { return ordered(a, b, true, true) },
	">=": func(a, b operand) operand { return ordered(b, a, true, true) },
	"+":  add, "-": subtract, "*": multiply, "/": divide, "%": modulo, "**": power, "^": power,
	"contains":   func(a, b operand) operand { return texts2(a, b, strings.Contains) },
	"startsWith": func(a, b operand) operand { return texts2(a, b, strings.HasPrefix) },
	"endsWith":   func(a, b operand) operand { return texts2(a, b, strings.HasSuffix) },
}

func (l *lowering) binary(n *ast.BinaryNode) code {
	switch n.Operator {
	case "in":
		return l.in(n)
	case "matches":
		return l.matches(n)
	}
	left, right := l.code(n.Left), l.code(n.Right)
	if left == nil || right == nil {
		return nil
	}
	switch n.Operator {
	case "and", "&&":
		return lazy(left, right, false)
	case "or", "||":
		return lazy(left, right, true)
	case "??":
		return func(e *Env) operand {
			if o := left(e); o.kind != opNull {
				return o
			}
			return right(e)
		}
	}
	op := binaryOps[n.Operator]
	if op == nil {
		return nil
	}
	if text, ok := n.Right.(*ast.StringNode); ok && n.Operator == "==" {
		return equalsText(left, text.Value)
	}
	return func(e *Env) operand {
		a := left(e)
		if a.kind == opBail {
			return bail
		}
		return op(a, right(e))
	}
}

// lazy is "and" and "or": the right side runs unless the left one is stop.
func lazy(left, right code, stop bool) code {
	return func(e *Env) operand {
		a, ok := left(e).truth()
		switch {
		case !ok:
			return bail
		case a == stop:
			return boolOperand(stop)
		}
		b := right(e)
		if b.kind != opBool {
			return bail
		}
		return b
	}
}

func equalsText(left code, text string) code {
	return func(e *Env) operand {
		switch a := left(e); a.kind {
		case opText:
			return boolOperand(a.text == text)
		case opBail, opOther:
			return bail
		}
		return boolOperand(false)
	}
}

// in is membership in a list literal. All items run first, as in the VM: an error in one counts.
func (l *lowering) in(n *ast.BinaryNode) code {
	left := l.code(n.Left)
	if left == nil {
		return nil
	}
	var items []code
	switch list := n.Right.(type) {
	case *ast.ConstantNode:
		if set, ok := list.Value.(map[string]struct{}); ok {
			return inTexts(left, set)
		}
		items = constants(list.Value)
	case *ast.ArrayNode:
		for _, node := range list.Nodes {
			items = append(items, l.code(node))
		}
	}
	if items == nil || slices.ContainsFunc(items, func(c code) bool { return c == nil }) {
		return nil
	}
	return func(e *Env) operand {
		a, found := left(e), false
		for _, item := range items {
			same, ok := equal(item(e), a).truth()
			if !ok {
				return bail
			}
			found = found || same
		}
		return boolOperand(found)
	}
}

// inTexts is membership in a list of text literals, which expr turns into a set.
func inTexts(left code, set map[string]struct{}) code {
	return func(e *Env) operand {
		a := left(e)
		if a.kind != opText && a.kind != opNull { // null counts as "", as in the VM
			return bail
		}
		_, found := set[a.text]
		return boolOperand(found)
	}
}

// constants are the items of a list that expr has folded.
func constants(list any) (items []code) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice {
		return nil
	}
	for i := range v.Len() {
		o := operandOf(v.Index(i).Interface())
		if o.kind == opBail {
			return nil
		}
		items = append(items, func(*Env) operand { return o })
	}
	return items
}

func (l *lowering) matches(n *ast.BinaryNode) code {
	pattern, ok := n.Right.(*ast.StringNode)
	left := l.code(n.Left)
	if !ok || left == nil {
		return nil
	}
	re, err := regexp.Compile(pattern.Value)
	if err != nil {
		return nil
	}
	return func(e *Env) operand {
		switch a := left(e); a.kind {
		case opText:
			return boolOperand(re.MatchString(a.text))
		case opNull:
			return boolOperand(false)
		}
		return bail
	}
}
