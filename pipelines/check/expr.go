package check

import (
	"fmt"
	"strings"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// problemCodes are the finding codes of what the expression compiler says.
var problemCodes = map[expression.Problem]lang.Code{
	expression.ProblemSyntax:         lang.CodeExprSyntax,
	expression.ProblemUnknownField:   CodeUnknownField,
	expression.ProblemUnknownName:    CodeUnknownName,
	expression.ProblemType:           CodeExprType,
	expression.ProblemResult:         CodeExprResult,
	expression.ProblemTooLong:        CodeExprTooLong,
	expression.ProblemClock:          CodeClock,
	expression.ProblemProcessingTime: CodeProcessingTime,
	expression.ProblemNullable:       CodeNullable,
	expression.ProblemNotYet:         lang.CodeNotYetFunction,
}

// program compiles one expression of a file and reports what is wrong with it. It is nil when the
// expression cannot run, or when the stream it looks at is broken.
func (c *checker) program(set *expression.Set, in *Stream, e *lang.Expr,
	want expression.Want) *expression.Program {
	if !e.Set || set == nil || in.Broken {
		return nil
	}
	p, issues := set.Compile(e.Text, want)
	for _, issue := range issues {
		c.issue(e, issue)
	}
	return p
}

func (c *checker) issue(e *lang.Expr, issue expression.Issue) {
	hint := issue.Hint
	if near := lang.Nearest(issue.Name, issue.Among); hint == "" && near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
		if t := issue.Types[near]; t != "" {
			hint = fmt.Sprintf("did you mean %q (%s)?", near, t)
		}
	}
	if hint == "" && issue.Problem == expression.ProblemUnknownName &&
		!strings.HasPrefix(issue.Message, "unknown function") {
		hint = fmt.Sprintf("a field is value.%[1]s, text is \"%[1]s\"", issue.Name)
	}
	if hint == "" && issue.Problem == expression.ProblemType && len(issue.Among) > 0 {
		hint = "one of " + strings.Join(issue.Among, ", ") + ", or a layout as 2006-01-02"
	}
	const most = 12
	if hint == "" && issue.Problem == expression.ProblemUnknownField && len(issue.Among) > 0 {
		names := issue.Among[:min(most, len(issue.Among))]
		hint = "it has " + strings.Join(names, ", ")
		if len(issue.Among) > most {
			hint += ", …"
		}
	}
	c.report(e.At(issue.Offset), issue.Width, problemCodes[issue.Problem], issue.Message, hint)
}

// projection compiles a value to make.
func (c *checker) projection(set *expression.Set, in *Stream,
	p *lang.Projection) *expression.Projection {
	if p.Whole.Set {
		if program := c.program(set, in, &p.Whole, expression.WantAny); program != nil {
			return expression.Whole(program)
		}
		return nil
	}
	out, ok := expression.Object(), true
	for i := range p.Fields {
		f := &p.Fields[i]
		value := c.projection(set, in, &f.Value)
		if value == nil {
			ok = false
			continue
		}
		out.Add(f.Key, value)
	}
	if !ok {
		return nil
	}
	return out
}

// typeOf is a declared type as the expression compiler knows it.
func typeOf(t *lang.Type) *expression.Type {
	kinds := map[string]expression.Kind{"string": expression.KindString,
		"int64": expression.KindInt, "float64": expression.KindFloat, "bool": expression.KindBool,
		"any": expression.KindAny, "list": expression.KindList, "object": expression.KindObject}
	out := &expression.Type{Kind: kinds[t.Name], Nullable: t.Nullable}
	if t.Item != nil {
		out.Item = typeOf(t.Item)
	}
	if t.Fields != nil {
		out.Fields = fieldsOf(t.Fields)
	}
	return out
}

func fieldsOf(m *lang.Map[lang.Type]) []expression.Field {
	out := make([]expression.Field, 0, len(m.Entries))
	for i := range m.Entries {
		e := &m.Entries[i]
		out = append(out, expression.Field{Name: e.Key, Type: typeOf(&e.Value)})
	}
	return out
}

// normal is an expression's text without white space at its ends, for comparing.
func normal(text string) string { return strings.TrimSpace(text) }
