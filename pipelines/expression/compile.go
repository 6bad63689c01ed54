package expression

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// Limits on one expression. expr itself had unbounded parsing before 1.17 (CVE-2025-29786).
const (
	MaxSourceBytes = 8 << 10
	maxNodes       = 1000
	// memoryBudget bounds what one run may allocate in lists and maps, in elements.
	memoryBudget = 1_000_000
)

// Want is the type of result an expression must have.
type Want uint8

// The wants.
const (
	WantAny Want = iota
	WantBool
	WantNumber // or null, which an aggregator skips
	WantTime
	WantList
)

// String is the want in a message.
func (w Want) String() string {
	return [...]string{"a value", "true or false", "a number", "a time", "a list"}[w]
}

// Set is the programs of one node. They share one scan of the record. Compile all of them before
// the first NewEnv.
type Set struct {
	scope *Scope
	docs  []*document
	names map[string]*name
}

// NewSet starts a set of programs over a scope, which must not change afterwards.
func NewSet(scope *Scope) *Set {
	s := &Set{scope: scope, names: map[string]*name{}}
	add := func(root string, format Format) {
		s.docs = append(s.docs, &document{root: root, header: RowHeader(root),
			format: format, tree: &path{}})
	}
	add("value", scope.Value.Format)
	add("key", scope.Key.Format)
	for _, r := range scope.Rows {
		add(r.Name, r.Doc.Format)
	}
	return s
}

// Program is one compiled expression. It runs on an Env of its Set.
type Program struct {
	set    *Set
	source string
	// Type is what is known of the result.
	Type  *Type
	want  Want
	flat  *vm.Program
	plain *vm.Program // over the decoded documents
	names []*name     // what flat loads
	roots []string    // what plain loads
	only  *name       // the program is just this path
	// code is the program as typed closures, nil when only the VM can run it; docs are the
	// documents it reads, which are scanned first.
	code code
	docs []int
	// fixed is the result of an expression without any name.
	fixed    any
	isFixed  bool
	fields   []projectedField // of an object literal: written in the order of the source
	usesTime bool
}

// Source is the text of the expression.
func (p *Program) Source() string { return p.source }

// Deterministic reports whether the program gives the same result whenever it runs.
func (p *Program) Deterministic() bool { return !p.usesTime }

// Roots are the top names the program reads: value, key, headers, window, a row, …
func (p *Program) Roots() []string { return slices.Clone(p.roots) }

// Compile compiles one expression. The program is nil when an issue is fatal.
func (s *Set) Compile(source string, want Want) (*Program, []Issue) {
	if len(source) > MaxSourceBytes {
		return nil, []Issue{{Problem: ProblemTooLong, Width: 1, Message: fmt.Sprintf(
			"the expression has %d bytes, the limit is %d", len(source), MaxSourceBytes)}}
	}
	checked, err := expr.Compile(source, append(functionOptions(), expr.Env(s.scope.checkerEnv()),
		expr.Optimize(false), expr.MaxNodes(maxNodes))...)
	if err != nil {
		return nil, []Issue{s.explain(source, err)}
	}
	p := &Program{set: s, source: source, want: want}
	review := &reviewer{scope: s.scope, env: s.scope.objectType(), parents: map[ast.Node]ast.Node{}}
	root := checked.Node()
	issues := review.run(&root)
	p.Type = s.resultType(root, review)
	if issue, bad := mismatch(source, want, p.Type); bad {
		issues = append(issues, issue)
	}
	if Fatal(issues) {
		return nil, issues
	}
	if err := s.lower(p); err != nil {
		return nil, append(issues, s.explain(source, err))
	}
	p.usesTime = slices.Contains(p.roots, "processing_time()")
	s.literalFields(p, root)
	return p, issues
}

// lower compiles the program twice: over flat names and over decoded documents.
func (s *Set) lower(p *Program) error {
	compile := func(plain bool) (*vm.Program, []string, error) {
		visit := &flattener{set: s, local: map[string]bool{}, plain: plain}
		program, err := expr.Compile(p.source, append(functionOptions(),
			expr.Env(map[string]any{}), expr.AllowUndefinedVariables(), expr.Patch(visit),
			expr.MaxNodes(2*maxNodes))...)
		if err != nil {
			return nil, nil, err
		}
		root := program.Node()
		used := &identifiers{local: visit.local}
		ast.Walk(&root, used)
		return program, used.list(), nil
	}
	var err error
	if p.plain, p.roots, err = compile(true); err != nil {
		return err
	}
	for _, root := range p.roots {
		if s.document(root) >= 0 {
			continue
		}
		if _, ok := s.intern(root); !ok {
			return fmt.Errorf("unknown name %s", root)
		}
	}
	var flat []string
	if p.flat, flat, err = compile(false); err != nil {
		return err
	}
	for _, ident := range flat {
		n, ok := s.intern(ident)
		if !ok {
			return fmt.Errorf("unknown name %s", strings.ReplaceAll(ident, separator, "."))
		}
		p.names = append(p.names, n)
	}
	if id, ok := p.flat.Node().(*ast.IdentifierNode); ok && len(p.names) == 1 &&
		p.names[0].ident == id.Value {
		p.only = p.names[0]
	}
	for _, n := range p.names {
		read := n.kind == namePath || n.kind == nameText
		if read && !slices.Contains(p.docs, n.doc) {
			p.docs = append(p.docs, n.doc)
		}
	}
	p.code = (&lowering{s}).code(p.flat.Node())
	if len(p.names) == 0 {
		var machine vm.VM
		machine.MemoryBudget = memoryBudget
		if v, err := machine.Run(p.flat, map[string]any{}); err == nil {
			p.fixed, p.isFixed = v, true
		}
	}
	return nil
}

// explain turns an error of the expression compiler into an issue.
func (s *Set) explain(source string, err error) Issue {
	issue := Issue{Problem: ProblemSyntax, Width: max(1, firstLineWidth(source)),
		Message: err.Error()}
	at, ok := errors.AsType[*file.Error](err)
	if !ok {
		if strings.Contains(issue.Message, "exceeds maximum allowed nodes") {
			issue.Problem = ProblemTooLong
		}
		return issue
	}
	issue.Offset, issue.Width = at.From, max(at.To-at.From, 1)
	issue.Message = strings.TrimSpace(at.Message)
	issue.Message, issue.Hint = plainSyntax(issue.Message)
	name, unknown := strings.CutPrefix(at.Message, "unknown name ")
	field, noField := strings.CutPrefix(at.Message, "unknown field ")
	switch {
	case unknown && name == "now":
		issue.Problem = ProblemClock
		issue.Message = "now() would make a replay differ from the live run"
		issue.Hint = "use timestamp, the record's own time"
	case unknown && slices.Contains(laterFunctions, name):
		issue.Problem = ProblemNotYet
		issue.Message = fmt.Sprintf("the function %s is not supported yet", name)
	case unknown:
		issue.Problem, issue.Name = ProblemUnknownName, name
		issue.Among = s.scope.names()
		s.explainName(&issue, source)
	case noField:
		issue.Problem, issue.Name = ProblemUnknownField, field
		s.explainField(&issue, source)
	case isSyntax(at.Message):
		issue.Problem = ProblemSyntax
	default:
		issue.Problem = ProblemType
	}
	return issue
}

var unexpectedToken = regexp.MustCompile(`^unexpected token \w+\((".*")\)$`)

// notOperators are what other languages write for an operator of this one.
var notOperators = map[string]string{
	"=": "==", "AND": "and", "And": "and", "OR": "or", "Or": "or", "NOT": "not", "&": "and",
	"<>": "!=", "===": "==", "LIKE": "contains", "IN": "in", "IS": "==", "is": "==", "%%": "%",
}

// notNames are what other languages call a value or a function of this one.
var notNames = map[string]string{
	"null": "nil", "NULL": "nil", "Null": "nil", "None": "nil", "Nil": "nil", "undefined": "nil",
	"True": "true", "TRUE": "true", "False": "false", "FALSE": "false",
	"upcase": "upper", "uppercase": "upper", "toUpper": "upper", "ucase": "upper",
	"downcase": "lower", "lowercase": "lower", "toLower": "lower", "lcase": "lower",
	"length": "len", "size": "len", "strlen": "len", "substring": "text[from:to]",
	"substr": "text[from:to]", "ifnull": "coalesce", "nvl": "coalesce", "str": "string",
	"to_string": "string", "to_int": "int", "to_float": "float", "number": "float",
}

// plainSyntax says what the parser says without the names of its tokens, and what to write instead
// when that is known.
func plainSyntax(message string) (said, hint string) {
	switch message {
	case "unexpected token EOF":
		return "the expression ends where more is needed", "write what is missing"
	case "literal not terminated":
		return "the text does not end", "add the closing quote"
	}
	m := unexpectedToken.FindStringSubmatch(message)
	if m == nil {
		return message, ""
	}
	if token, err := strconv.Unquote(m[1]); err == nil && notOperators[token] != "" {
		hint = fmt.Sprintf("write %s", notOperators[token])
	}
	return fmt.Sprintf("%s is not expected here", m[1]), hint
}

// isSyntax tells the parser's messages from the checker's: expr has one error type for both.
func isSyntax(message string) bool {
	for _, start := range []string{"unexpected token", "unclosed", "invalid character",
		"unrecognized character", "bad number", "unterminated", "literal not terminated",
		"a map key must be", "too many closing", "Operator", "cannot use pointer accessor",
		"syntax error", "invalid char", "unbalanced", "exceeded maximum", "unknown operator",
		"invalid number", "invalid float", "invalid integer", "predicate", "cannot redeclare"} {
		if strings.HasPrefix(message, start) {
			return true
		}
	}
	return false
}

// explainName adds what is special about a name that is not known.
func (s *Set) explainName(issue *Issue, source string) {
	issue.Message = fmt.Sprintf("unknown name %q", issue.Name)
	if word := notNames[issue.Name]; word != "" {
		issue.Hint = "write " + word
	}
	rest := []rune(source)[min(issue.Offset+issue.Width, utf8.RuneCountInString(source)):]
	if strings.HasPrefix(strings.TrimSpace(string(rest)), "(") {
		issue.Message = fmt.Sprintf("unknown function %q", issue.Name)
		issue.Among = functionNames()
		return
	}
	if s.scope.Value.typ().Field(issue.Name) != nil {
		issue.Hint = fmt.Sprintf("did you mean value.%s?", issue.Name)
	}
	if issue.Name == "window" {
		issue.Hint = "window is there after an aggregate"
	}
}

// explainField finds the object whose field is not known: the longest declared path before it.
func (s *Set) explainField(issue *Issue, source string) {
	runes := []rune(source)
	before := strings.TrimRight(string(runes[:min(issue.Offset, len(runes))]), ".?[\"' \n\t")
	start := strings.LastIndexFunc(before, func(r rune) bool {
		return !(r == '_' || r == '.' || r == '?' || r >= '0' && r <= '9' ||
			r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	owner := strings.ReplaceAll(before[start+1:], "?", "")
	t := s.scope.objectType()
	for part := range strings.SplitSeq(owner, ".") {
		if t = t.Field(part); t == nil {
			break
		}
	}
	issue.Message = fmt.Sprintf("unknown field %q", issue.Name)
	if t == nil {
		return
	}
	issue.Message += " in " + owner
	issue.Types = map[string]string{}
	for _, f := range t.Fields {
		issue.Among = append(issue.Among, f.Name)
		issue.Types[f.Name] = f.Type.String()
	}
}

func firstLineWidth(s string) int {
	line, _, _ := strings.Cut(s, "\n")
	return utf8.RuneCountInString(line)
}

// mismatch compares what an expression gives with what is wanted. expr reports this without a
// place, so it is the start of the expression.
func mismatch(source string, want Want, t *Type) (Issue, bool) {
	ok := true
	switch want {
	case WantBool:
		ok = t.Kind == KindBool
	case WantNumber:
		ok = t.Kind == KindInt || t.Kind == KindFloat || t.Kind == KindNull
	case WantTime:
		ok = t.Kind == KindTime
	case WantList:
		ok = t.Kind == KindList
	}
	if ok || t.Kind == KindAny {
		return Issue{}, false
	}
	issue := Issue{Problem: ProblemResult, Width: max(1, firstLineWidth(source)),
		Message: fmt.Sprintf("%s is needed here, this is of type %s", want, t)}
	if want == WantTime {
		issue.Hint = `parse_time(value.field, "rfc3339") makes a time`
	}
	return issue, true
}
