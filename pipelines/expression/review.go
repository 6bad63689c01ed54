package expression

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// reviewer says what the checker does not: values that may be null where null is an error, and
// calls that make a replay differ.
type reviewer struct {
	scope   *Scope
	env     *Type
	parents map[ast.Node]ast.Node
	guarded map[string]bool // paths compared with null somewhere in the expression
	issues  []Issue
}

func (r *reviewer) run(root *ast.Node) []Issue {
	r.guarded = map[string]bool{}
	for _, path := range r.scope.NotNull {
		r.guarded[path] = true
	}
	r.link(*root, nil)
	for node := range r.parents {
		if b, ok := node.(*ast.BinaryNode); ok && (b.Operator == "==" || b.Operator == "!=") {
			for _, pair := range [][2]ast.Node{{b.Left, b.Right}, {b.Right, b.Left}} {
				if _, isNil := pair[1].(*ast.NilNode); isNil {
					r.guarded[pathText(pair[0])] = true
				}
			}
		}
	}
	for node, parent := range r.parents {
		r.node(node, parent)
	}
	slices.SortFunc(r.issues, func(a, b Issue) int { return a.Offset - b.Offset })
	return slices.CompactFunc(r.issues, func(a, b Issue) bool {
		return a.Offset == b.Offset && a.Message == b.Message
	})
}

func (r *reviewer) link(node, parent ast.Node) {
	if node == nil {
		return
	}
	r.parents[node] = parent
	for _, child := range children(node) {
		r.link(child, node)
	}
}

func (r *reviewer) node(node, parent ast.Node) {
	if id, ok := node.(*ast.IdentifierNode); ok && id.Value == "$env" {
		r.add(node, Issue{Problem: ProblemUnknownName, Message: "$env is not part of the language",
			Hint: "name the fields you need", Width: 4})
	}
	r.layout(node)
	if call, ok := node.(*ast.CallNode); ok {
		if id, ok := call.Callee.(*ast.IdentifierNode); ok && id.Value == "processing_time" {
			r.add(id, Issue{Problem: ProblemProcessingTime, Warning: true, Width: len(id.Value),
				Message: "processing_time() breaks replay determinism",
				Hint:    "use timestamp, the record's own time"})
		}
	}
	if m, ok := parent.(*ast.MemberNode); ok && m.Node == node {
		return // only the longest path is looked at
	}
	steps := pathOf(node)
	if steps == nil {
		return
	}
	r.path(node, parent, steps)
}

// layout reports a word for the form of a time that is none of those that have names. Go's own
// layouts have a sign or a digit first: 2006-01-02.
func (r *reviewer) layout(node ast.Node) {
	call, ok := node.(*ast.CallNode)
	if !ok || len(call.Arguments) == 0 {
		return
	}
	function, ok := call.Callee.(*ast.IdentifierNode)
	text, isText := call.Arguments[len(call.Arguments)-1].(*ast.StringNode)
	if !ok || !isText || !layoutName.MatchString(text.Value) || layouts[text.Value] != "" {
		return
	}
	among := slices.Sorted(maps.Keys(layouts))
	switch function.Value {
	case "parse_time":
		if among = append(among, "unix", "unix_ms"); slices.Contains(among, text.Value) {
			return
		}
	case "format_time", "record_time":
	default:
		return
	}
	r.add(text, Issue{Problem: ProblemType, Width: len(text.Value) + 2, Name: text.Value,
		Among: among, Message: fmt.Sprintf("%q is no form of a time", text.Value)})
}

// layoutName is a layout that looks like a name.
var layoutName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// path follows a path through the declared types.
func (r *reviewer) path(node, parent ast.Node, steps []pathStep) {
	t, covered := r.env, false
	for i, s := range steps {
		if i > 0 {
			covered = covered || s.optional
			if t.Nullable && !covered && !r.guarded[join(steps[:i])] {
				r.add(s.node, Issue{Problem: ProblemNullable, Warning: true, Width: len(s.key),
					Message: fmt.Sprintf("%s may be null", join(steps[:i])),
					Hint:    fmt.Sprintf("write %s?.%s", join(steps[:i]), s.key)})
				return
			}
		}
		if t = t.Field(s.key); t == nil {
			return
		}
	}
	if chain, ok := parent.(*ast.ChainNode); ok {
		parent = r.parents[chain]
	}
	if t.Nullable && !r.guarded[join(steps)] && badForNull(node, parent) {
		last := steps[len(steps)-1]
		r.add(last.node, Issue{Problem: ProblemNullable, Warning: true, Width: len(last.key),
			Message: fmt.Sprintf("%s may be null, which is an error here", join(steps)),
			Hint:    fmt.Sprintf("write (%s ?? …)", join(steps))})
	}
}

func (r *reviewer) add(node ast.Node, issue Issue) {
	issue.Offset = node.Location().From
	r.issues = append(r.issues, issue)
}

// badForNull reports whether parent fails at run time when its operand is null.
func badForNull(node, parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.BinaryNode:
		return !slices.Contains([]string{"==", "!=", "??", "in", "not in"}, p.Operator)
	case *ast.UnaryNode:
		return true
	case *ast.BuiltinNode:
		return !slices.Contains([]string{"type", "string", "get"}, p.Name)
	case *ast.CallNode:
		id, ok := p.Callee.(*ast.IdentifierNode)
		return !ok || !slices.Contains([]string{"coalesce", "redact", "toJSON"}, id.Value)
	case *ast.ConditionalNode:
		return p.Cond == node
	}
	return false
}

// pathStep is one name of a fixed path and the node that holds it.
type pathStep struct {
	key      string
	optional bool
	node     ast.Node
}

// pathOf is the fixed path a node is, or nil.
func pathOf(node ast.Node) []pathStep {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		return []pathStep{{n.Value, false, n}}
	case *ast.ChainNode:
		return pathOf(n.Node)
	case *ast.MemberNode:
		base := pathOf(n.Node)
		key, ok := n.Property.(*ast.StringNode)
		if base == nil || !ok {
			return nil
		}
		return append(base, pathStep{key.Value, n.Optional, key})
	}
	return nil
}

func join(steps []pathStep) string {
	keys := make([]string, len(steps))
	for i, s := range steps {
		keys[i] = s.key
	}
	return strings.Join(keys, ".")
}

func pathText(node ast.Node) string { return join(pathOf(node)) }

// children lists the nodes directly below a node.
func children(node ast.Node) []ast.Node {
	switch n := node.(type) {
	case *ast.UnaryNode:
		return []ast.Node{n.Node}
	case *ast.BinaryNode:
		return []ast.Node{n.Left, n.Right}
	case *ast.ChainNode:
		return []ast.Node{n.Node}
	case *ast.MemberNode:
		return []ast.Node{n.Node, n.Property}
	case *ast.SliceNode:
		return []ast.Node{n.Node, n.From, n.To}
	case *ast.CallNode:
		return append([]ast.Node{n.Callee}, n.Arguments...)
	case *ast.BuiltinNode:
		return n.Arguments
	case *ast.PredicateNode:
		return []ast.Node{n.Node}
	case *ast.VariableDeclaratorNode:
		return []ast.Node{n.Value, n.Expr}
	case *ast.SequenceNode:
		return n.Nodes
	case *ast.ConditionalNode:
		return []ast.Node{n.Cond, n.Exp1, n.Exp2}
	case *ast.ArrayNode:
		return n.Nodes
	case *ast.MapNode:
		return n.Pairs
	case *ast.PairNode:
		return []ast.Node{n.Key, n.Value}
	}
	return nil
}

// resultType is what is known of an expression's result: declared types survive where the checker
// only knows Go's.
func (s *Set) resultType(node ast.Node, r *reviewer) *Type {
	if steps := pathOf(node); steps != nil {
		t, null := r.env, false
		for i, step := range steps {
			if i > 0 {
				null = null || t.Nullable
			}
			next := t.Field(step.key)
			if next == nil {
				return Any
			}
			t = next
		}
		if null && !t.Nullable {
			copied := *t
			copied.Nullable = true
			return &copied
		}
		return t
	}
	if m, ok := node.(*ast.MapNode); ok {
		t := &Type{Kind: KindObject}
		for _, p := range m.Pairs {
			pair, ok := p.(*ast.PairNode)
			if !ok {
				return Any
			}
			key, ok := pair.Key.(*ast.StringNode)
			if !ok {
				return &Type{Kind: KindObject, Open: true}
			}
			t.Fields = append(t.Fields, Field{key.Value, s.resultType(pair.Value, r)})
		}
		return t
	}
	return fromChecker(node.Nature())
}

// literalFields prepares an object literal to be written field by field, in the order of the
// source. A sub-expression is compiled from its printed form.
func (s *Set) literalFields(p *Program, root ast.Node) {
	m, ok := root.(*ast.MapNode)
	if !ok {
		return
	}
	var fields []projectedField
	for _, node := range m.Pairs {
		pair, ok := node.(*ast.PairNode)
		if !ok {
			return
		}
		key, ok := pair.Key.(*ast.StringNode)
		if !ok || slices.ContainsFunc(fields, func(f projectedField) bool {
			return f.name == key.Value
		}) {
			return
		}
		sub, issues := s.Compile(pair.Value.String(), WantAny)
		if sub == nil || Fatal(issues) {
			return
		}
		fields = append(fields, newProjectedField(key.Value, &Projection{whole: sub}))
	}
	p.fields = fields
}
