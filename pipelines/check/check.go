package check

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// Options are what Check asks for beyond the tree.
type Options struct {
	// Catalog knows connectors and plugins; nil: their settings are not checked.
	Catalog Catalog
}

// checker holds one run of Check.
type checker struct {
	tree     *lang.Pipeline
	catalog  Catalog
	findings []lang.Finding
	result   *Result

	// broken: loading found errors, so that what is absent may just have been unreadable.
	broken bool
	// absent: one of them may have made a key absent, and not only wrong in place.
	absent  bool
	names   map[string]*endpoint // sources, steps and branches: what from: may name
	schemas map[string]*expression.Type
	// plugins used by some step.
	pluginUses map[string]bool
	// dlqUses counts what leads to a dead-letter topic beside the policies' own then.
	dlqUses        int
	dlqMaybeUnused []lang.TopicName
}

// Check returns a compiled pipeline and everything there is to say about it. findings are those
// of lang.Load for the same tree; they come back with Check's own, sorted, and tell it which
// parts of the tree are absent because they were wrong.
func Check(tree *lang.Pipeline, findings []lang.Finding, opts Options) (*Result, []lang.Finding) {
	c := &checker{
		tree: tree, catalog: opts.Catalog, findings: slices.Clone(findings),
		result: &Result{Tree: tree}, names: map[string]*endpoint{},
		schemas: map[string]*expression.Type{}, pluginUses: map[string]bool{},
		broken: lang.HasErrors(findings), absent: slices.ContainsFunc(findings, hidesKeys),
	}
	if !tree.Pos.IsSet() {
		return c.result, lang.SortFindings(c.findings)
	}
	c.variables()
	for i := range tree.Schemas.Entries {
		e := &tree.Schemas.Entries[i]
		c.schemas[e.Key] = &expression.Type{Kind: expression.KindObject,
			Fields: fieldsOf(&e.Value.Fields)}
	}
	c.result.Policy = c.policy(tree.OnError, nil)
	if tree.Guarantee.Value == "exactly_once" {
		c.report(tree.Guarantee.Pos, len("exactly_once"), lang.CodeNotYetValue,
			"guarantee: exactly_once is not supported yet, it needs transactions",
			"leave it out; pipeline plan shows what each sink guarantees")
	}
	c.sources()
	c.tables()
	order := c.steps()
	for _, i := range order {
		c.step(c.result.Steps[i])
	}
	reorder(c.result, order)
	c.sinks()
	if !c.broken && !slices.ContainsFunc(c.findings, isGraphError) {
		c.unused()
	}
	c.loops()
	return c.result, lang.SortFindings(c.findings)
}

// hidesKeys reports an error of loading after which a key may be missing from the tree: what is
// wrong with a value leaves its place.
func hidesKeys(f lang.Finding) bool {
	return f.Severity == lang.Error && !slices.Contains([]lang.Code{lang.CodeBadValue,
		lang.CodeBadDuration, lang.CodeBadSize, lang.CodeBadType}, f.Code)
}

// isGraphError reports an error after which nobody knows what reads what.
func isGraphError(f lang.Finding) bool {
	return f.Severity == lang.Error &&
		(f.Code > "E300" && f.Code < "E310" || f.Code == CodeTableInput)
}

// reorder puts steps in the order records flow.
func reorder(r *Result, order []int) {
	sorted := make([]*Step, 0, len(order))
	for _, i := range order {
		sorted = append(sorted, r.Steps[i])
	}
	r.Steps = sorted
}

func (c *checker) report(at lang.Pos, width int, code lang.Code, message, hint string) {
	severity := lang.Error
	switch code[0] {
	case 'W':
		severity = lang.Warning
	case 'I':
		severity = lang.Info
	}
	c.findings = append(c.findings, lang.Finding{File: at.File, Line: at.Line, Col: at.Col,
		Width: max(width, 1), Code: code, Severity: severity, Message: message, Hint: hint})
}

func (c *checker) variables() {
	for i := range c.tree.Vars.Entries {
		e := &c.tree.Vars.Entries[i]
		v := e.Value.Any(false)
		switch v.(type) {
		case string, int64, float64, bool:
			c.result.Vars = append(c.result.Vars, expression.Var{Name: e.Key, Value: v})
		}
	}
}

// doc is a declared encoding as expressions see it.
func (c *checker) doc(e *lang.Encoding, fallback expression.Format) expression.Doc {
	d := expression.Doc{Format: fallback}
	if !e.Set {
		return d
	}
	if f, err := expression.ParseFormat(e.Format.Value); err == nil {
		d.Format = f
	}
	if !e.Schema.Set {
		return d
	}
	name := string(e.Schema.Value)
	t, ok := c.schemas[name]
	switch {
	case !ok:
		hint := "declare it under schemas:"
		if near := lang.Nearest(name, c.tree.Schemas.Keys()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		c.report(e.Schema.Pos, len(name), CodeUnknownSchema,
			fmt.Sprintf("there is no schema %q", name), hint)
	case d.Format != expression.FormatJSON:
		c.report(e.Schema.Pos, len(name), CodeUnknownSchema,
			fmt.Sprintf("a schema is for json, the format is %s", d.Format), "")
	default:
		d.Type = t
	}
	return d
}
