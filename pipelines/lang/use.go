package lang

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// StepTemplate is a list of steps with parameters. A step  use: name, with: {…}  stands for them.
type StepTemplate struct {
	Params Map[Param] `yaml:"params"`
	Steps  List[Step] `yaml:"steps" required:"true"`

	Pos Pos
}

func (*StepTemplate) object() (string, string) { return "a template", "steps with parameters" }

// decode reads the parameters. The steps are read where the template is used.
func (t *StepTemplate) decode(d *decoder, n *node, _ *field) {
	t.Pos = n.pos
	if n.kind != kindMapping {
		d.wrongKind(n, "a mapping (a template)")
		return
	}
	for _, p := range n.pairs {
		switch p.key.value {
		case "params":
			t.Params.decode(d, p.value, &field{key: "params"})
		case "steps":
			if p.value.kind != kindSequence || len(p.value.items) == 0 {
				d.wrongKind(p.value, "a list of steps")
			}
		default:
			d.unknownKey(p.key, "a template", []field{{key: "params"}, {key: "steps"}})
		}
	}
	if !n.has("steps") {
		d.report(n.pos, 1, CodeMissingKey, "a template needs steps:", "")
	}
}

func (t *StepTemplate) schema(g *schemaGen, _ *field) map[string]any {
	return g.define("StepTemplate", func() map[string]any {
		return map[string]any{"type": "object", "required": []any{"steps"},
			"additionalProperties": false, "properties": map[string]any{
				"params": t.Params.schema(g, &field{}),
				"steps":  map[string]any{"type": "array", "minItems": 1}}}
	})
}

// Param is one parameter of a template.
type Param struct {
	Type    Text `yaml:"type" enum:"any,string,int,float,bool,list,expr,path" default:"any"`
	Default Tree `yaml:"default"`
	Doc     Text `yaml:"doc"`

	Pos Pos
}

func (*Param) object() (string, string) { return "a parameter", "one parameter of a template" }

// user puts the steps of templates where they are used.
type user struct {
	d         *decoder
	templates map[string]*node
	used      map[string]bool
	nodes     int // copied so far
}

// expandUses replaces every step  use: name  of a file by the steps of that template.
func (d *decoder) expandUses(root *node) {
	templates, steps := root.get("templates"), root.get("steps")
	if root.kind != kindMapping || steps == nil || steps.kind != kindSequence {
		return
	}
	u := &user{d: d, templates: map[string]*node{}, used: map[string]bool{}}
	if templates != nil {
		for _, p := range templates.pairs {
			u.templates[p.key.value] = p.value
		}
	}
	var items []*node
	for _, step := range steps.items {
		if use := step.get("use"); use != nil && use.kind == kindScalar {
			items = append(items, u.expand(step, use)...)
		} else {
			items = append(items, step)
		}
	}
	steps.items = items
	if templates == nil || templates.kind != kindMapping {
		return
	}
	for _, p := range templates.pairs {
		if !u.used[p.key.value] && p.key.pos.File == root.pos.File { // not one that others share
			d.reportAt(p.key, CodeUnusedTemplate,
				fmt.Sprintf("no step uses the template %q", p.key.value), "")
		}
	}
}

// expand gives the steps that a use stands for; none when it is in error.
func (u *user) expand(step, use *node) []*node {
	u.used[use.value] = true
	t := u.templates[use.value]
	if t == nil {
		names := make([]string, 0, len(u.templates))
		for name := range u.templates {
			names = append(names, name)
		}
		hint := "declare it under templates:"
		if near := Nearest(use.value, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		u.d.reportAt(use, CodeUse, fmt.Sprintf("there is no template %q", use.value), hint)
		return nil
	}
	for _, p := range step.pairs {
		switch p.key.value {
		case "id", "from", "use", "with":
		default:
			u.d.reportAt(p.key, CodeUse, fmt.Sprintf("%s: cannot stand beside use:", p.key.value),
				"write it at the steps of the template, or in a step of its own")
		}
	}
	body := t.get("steps")
	if body == nil || body.kind != kindSequence || len(body.items) == 0 {
		return nil // reported at the template
	}
	args, ok := u.arguments(step, use, t)
	if !ok {
		return nil
	}
	names := u.names(step, body)
	var out []*node
	for i, inner := range body.items {
		if at := inner.get("use"); at != nil {
			u.d.reportAt(at, CodeUse, "a template cannot use another one", "write the steps out")
			return nil
		}
		if u.nodes > MaxNodes {
			u.d.reportAt(use, CodeTooLarge, fmt.Sprintf("more than %d values after templates are "+
				"expanded", MaxNodes), "")
			return nil
		}
		made := u.copy(inner, args)
		u.rename(made, names, step, i == 0, i == len(body.items)-1)
		out = append(out, made)
	}
	return out
}

// arguments are the values of a use's parameters.
func (u *user) arguments(step, use, template *node) (map[string]argument, bool) {
	args, ok := map[string]argument{}, true
	with, params := step.get("with"), template.get("params")
	given := map[string]*node{}
	if with != nil {
		for _, p := range with.pairs {
			given[p.key.value] = p.value
			if params == nil || params.get(p.key.value) == nil {
				ok = false
				u.d.reportAt(p.key, CodeUse, fmt.Sprintf("the template %q has no parameter %q",
					use.value, p.key.value), u.known(params, p.key.value))
			}
		}
	}
	if params == nil {
		return args, ok
	}
	for _, p := range params.pairs {
		kind := "any"
		if t := p.value.get("type"); t != nil {
			kind = t.value
		}
		value := given[p.key.value]
		if value == nil {
			value = p.value.get("default")
		}
		switch {
		case value == nil:
			ok = false
			u.d.reportAt(use, CodeUse, fmt.Sprintf("the template %q needs the parameter %q",
				use.value, p.key.value), "add  with: {"+p.key.value+": …}")
		case !fits(value, kind):
			ok = false
			u.d.reportAt(value, CodeUse, fmt.Sprintf("the parameter %q is of type %s",
				p.key.value, kind), "")
		}
		args[p.key.value] = argument{value, kind}
	}
	return args, ok
}

func (u *user) known(params *node, name string) string {
	var names []string
	if params != nil {
		for _, p := range params.pairs {
			names = append(names, p.key.value)
		}
	}
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}

// argument is what stands for a parameter, and the type it was declared with.
type argument struct {
	value *node
	kind  string
}

// fits tells whether a value is of a parameter's type.
func fits(n *node, kind string) bool {
	scalar := n.kind == kindScalar && !n.isNull()
	switch kind {
	case "string", "expr":
		return scalar
	case "int":
		return scalar && n.tag == "!!int"
	case "float":
		return scalar && (n.tag == "!!int" || n.tag == "!!float")
	case "bool":
		return scalar && n.tag == "!!bool"
	case "path":
		return scalar && pathPattern.MatchString(n.value)
	case "list":
		return n.kind == kindSequence
	}
	return true
}

// names maps the ids of a template's steps and branches to those of a use: what its last step
// gives has the id of the use, the others have it in front.
func (u *user) names(step, body *node) map[string]string {
	names := map[string]string{}
	id := step.get("id")
	if id == nil || id.kind != kindScalar {
		return names
	}
	add := func(n *node) {
		if n != nil && n.kind == kindScalar {
			names[n.value] = id.value + "-" + n.value
		}
	}
	for _, s := range body.items {
		add(s.get("id"))
		if arms := s.get("branch"); arms != nil {
			for _, arm := range arms.items {
				add(arm.get("as"))
			}
		}
	}
	if last := body.items[len(body.items)-1].get("id"); last != nil {
		names[last.value] = id.value
	}
	return names
}

// rename gives a copied step its id, and what it reads the ids of the use.
func (u *user) rename(made *node, names map[string]string, step *node, first, last bool) {
	change := func(n *node) {
		if n == nil {
			return
		}
		for _, x := range append(n.items, n) {
			if name, ok := names[x.value]; ok && x.kind == kindScalar {
				x.value = name
			}
		}
	}
	change(made.get("id"))
	change(made.get("from"))
	change(made.get("merge"))
	if arms := made.get("branch"); arms != nil {
		for _, arm := range arms.items {
			change(arm.get("as"))
		}
	}
	if j := made.get("join"); j != nil {
		change(j.get("stream"))
	}
	inherit := func(key string) {
		for _, p := range step.pairs {
			if p.key.value == key && made.get(key) == nil {
				made.pairs = append([]pair{p}, made.pairs...)
			}
		}
	}
	if first {
		inherit("from")
	}
	if last {
		inherit("id")
	}
}

// copy copies a node of a template. A value that is a parameter and nothing else becomes the
// argument, whatever its form; parameters inside a text are resolved when the text is read.
func (u *user) copy(n *node, args map[string]argument) *node {
	u.nodes++
	if name, ok := strings.CutPrefix(n.value, "${param:"); ok && n.kind == kindScalar {
		a, ok := args[strings.TrimSuffix(name, "}")]
		if ok && strings.HasSuffix(name, "}") && a.kind != "string" { // a string is never code
			return u.copy(a.value, nil)
		}
	}
	out := *n
	out.params = args
	out.pairs, out.items = nil, nil
	for _, p := range n.pairs {
		out.pairs = append(out.pairs, pair{u.copy(p.key, nil), u.copy(p.value, args)})
	}
	for _, item := range n.items {
		out.items = append(out.items, u.copy(item, args))
	}
	return &out
}

var paramPattern = regexp.MustCompile(`\$\{param:([^}]*)\}`)

// inExpression writes the parameters of an expression into its text: values as literals, so that
// they cannot be anything else, paths and expressions as they are. why is not empty on failure.
func (n *node) inExpression() (text, why string) {
	text = paramPattern.ReplaceAllStringFunc(n.value, func(ref string) string {
		name := paramPattern.FindStringSubmatch(ref)[1]
		a, ok := n.params[name]
		switch {
		case !ok:
			why = fmt.Sprintf("there is no parameter %q", name)
		case a.value.kind != kindScalar:
			why = fmt.Sprintf("the parameter %q is a list or a mapping, not a value", name)
		case a.kind == "expr":
			return "(" + a.value.value + ")"
		case a.kind == "path" || a.value.tag == "!!int" || a.value.tag == "!!float" ||
			a.value.tag == "!!bool":
			return a.value.value
		default:
			quoted, _ := json.Marshal(a.value.value) // a string always encodes
			return string(quoted)
		}
		return ref
	})
	return text, why
}
