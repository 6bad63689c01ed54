package expression

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// nameKind says where the value of a flat name comes from.
type nameKind uint8

const (
	namePath nameKind = iota // a path into a JSON document
	nameText                 // a key, value or row that is text or bytes
	nameHeader
	nameHeaders
	nameTimestamp
	nameTopic
	namePartition
	nameOffset
	nameWindow
	nameWindowStart
	nameWindowEnd
	nameVars
	nameVar
	nameClock
)

// step is one step of a path; optional is ?.
type step struct {
	key      string
	optional bool
}

// name is one flat name of a Set: what a program loads before it runs.
type name struct {
	ident string // the key in the flat environment
	root  string // the first part: value, key, headers, a row, …
	kind  nameKind
	doc   int    // index of the document, for namePath and nameText
	steps []step // for namePath
	id    int    // path id in the document, for namePath
	ids   []int  // path ids from the root to the last step, for namePath
	arg   string // header or variable
	slot  int    // index in an Env's tables
}

// separator joins the parts of a flat name. It cannot be typed in an expression.
const separator = "\x1f"

// document is one JSON or text the set reads: the value, the key or a row.
type document struct {
	root   string // value, key or the row's name
	header string // of a row
	format Format
	tree   *path
	count  int // path ids given out
	wanted int
}

// flattener replaces fixed paths in a syntax tree by flat names. It visits children first, so a
// path grows from its root outwards.
type flattener struct {
	set *Set
	// local holds names of let variables: they hide nothing, the checker refuses to redeclare.
	local map[string]bool
	plain bool // only replace the pseudo functions, for the program over the decoded value
}

// Visit implements ast.Visitor.
func (f *flattener) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.VariableDeclaratorNode:
		f.local[n.Name] = true
	case *ast.CallNode:
		f.call(node, n)
	case *ast.MemberNode:
		f.member(node, n)
	}
}

// call replaces header("x"), record_time(layout) and processing_time().
func (f *flattener) call(node *ast.Node, n *ast.CallNode) {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return
	}
	switch callee.Value {
	case "processing_time":
		ast.Patch(node, &ast.IdentifierNode{Value: "processing_time()"})
	case "record_time":
		if len(n.Arguments) == 1 {
			ast.Patch(node, &ast.CallNode{
				Callee:    &ast.IdentifierNode{Value: "format_time"},
				Arguments: []ast.Node{&ast.IdentifierNode{Value: "timestamp"}, n.Arguments[0]},
			})
		}
	case "header":
		if len(n.Arguments) != 1 {
			return
		}
		member := &ast.MemberNode{Node: &ast.IdentifierNode{Value: "headers"},
			Property: n.Arguments[0]}
		ast.Patch(node, member)
		f.member(node, member)
	}
}

func (f *flattener) member(node *ast.Node, n *ast.MemberNode) {
	base, ok := n.Node.(*ast.IdentifierNode)
	property, fixed := n.Property.(*ast.StringNode)
	if !ok || !fixed || f.plain {
		return
	}
	root, rest, _ := strings.Cut(base.Value, separator)
	deeper := rest != ""
	switch {
	case f.local[root]:
		return
	case root == "headers" || root == "vars":
		if deeper {
			return
		}
	case root == "window":
		if deeper || !f.set.scope.Window || property.Value != "start" && property.Value != "end" {
			return
		}
	case f.set.document(root) < 0 || f.set.docs[f.set.document(root)].format != FormatJSON:
		return
	}
	mark := ""
	if n.Optional {
		mark = "?"
	}
	ast.Patch(node, &ast.IdentifierNode{
		Value: base.Value + separator + mark + property.Value,
	})
}

// document is the index of the document an expression calls root, or -1.
func (s *Set) document(root string) int {
	return slices.IndexFunc(s.docs, func(d *document) bool { return d.root == root })
}

// intern gives the flat name ident its place in the set.
func (s *Set) intern(ident string) (*name, bool) {
	if n, ok := s.names[ident]; ok {
		return n, true
	}
	parts := strings.Split(ident, separator)
	n := &name{ident: ident, root: parts[0], slot: len(s.names)}
	switch {
	case n.root == "headers" && len(parts) == 2:
		n.kind, n.arg = nameHeader, strings.TrimPrefix(parts[1], "?")
	case n.root == "vars" && len(parts) == 2:
		n.kind, n.arg = nameVar, strings.TrimPrefix(parts[1], "?")
	case n.root == "window" && len(parts) == 2:
		n.kind = nameWindowStart
		if strings.HasSuffix(parts[1], "end") {
			n.kind = nameWindowEnd
		}
	case s.document(n.root) >= 0:
		s.internPath(n, parts[1:])
	default:
		kind, ok := map[string]nameKind{
			"headers": nameHeaders, "timestamp": nameTimestamp, "topic": nameTopic,
			"partition": namePartition, "offset": nameOffset, "window": nameWindow,
			"vars": nameVars, "processing_time()": nameClock,
		}[ident]
		if !ok {
			return nil, false
		}
		n.kind = kind
	}
	s.names[ident] = n
	return n, true
}

// internPath adds a path to its document's tree.
func (s *Set) internPath(n *name, parts []string) {
	n.doc = s.document(n.root)
	doc := s.docs[n.doc]
	if doc.format != FormatJSON {
		n.kind = nameText
		return
	}
	at := doc.tree
	n.ids = []int{at.id}
	for _, part := range parts {
		key, optional := strings.CutPrefix(part, "?")
		n.steps = append(n.steps, step{key, optional})
		next := at.child([]byte(key))
		if next == nil {
			doc.count++
			next = &path{id: doc.count}
			at.keys, at.kids = append(at.keys, key), append(at.kids, next)
		}
		at = next
		n.ids = append(n.ids, at.id)
	}
	if n.id = at.id; !at.wanted {
		at.wanted = true
		doc.wanted++
	}
}

// identifiers lists the identifiers a tree loads from the environment, in order of appearance.
type identifiers struct {
	local map[string]bool
	names []string
}

// Visit implements ast.Visitor.
func (v *identifiers) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.VariableDeclaratorNode:
		v.local[n.Name] = true
	case *ast.IdentifierNode:
		if !slices.Contains(v.names, n.Value) {
			v.names = append(v.names, n.Value)
		}
	}
}

// list returns the names but those of functions and let variables.
func (v *identifiers) list() []string {
	return slices.DeleteFunc(v.names, func(n string) bool {
		return v.local[n] || slices.ContainsFunc(functions, func(f Function) bool {
			return f.Name == n
		}) || slices.ContainsFunc(sortedBuiltins, func(f Function) bool { return f.Name == n })
	})
}
