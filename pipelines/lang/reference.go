package lang

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// resolver replaces ${…} in scalar values.
type resolver struct {
	src    *File
	opts   Options
	vars   map[string]Tree
	off    bool // references are left as they are
	inVars bool // ${var:…} is not allowed while variables themselves are read
}

var referencePattern = regexp.MustCompile(`\$\$\{|\$\{([^}]*)(\}?)`)

// resolve returns a scalar's text with references replaced. secret is true when any part is
// secret. ok is false when a finding was reported.
func (r *resolver) resolve(d *decoder, n *node) (text string, secret, ok bool) {
	if r.off || !strings.Contains(n.value, "${") {
		return n.value, false, true
	}
	ok = true
	var out strings.Builder
	last := 0
	for _, m := range referencePattern.FindAllStringSubmatchIndex(n.value, -1) {
		out.WriteString(n.value[last:m[0]])
		last = m[1]
		if m[2] < 0 { // $${ is a literal ${
			out.WriteString("${")
			continue
		}
		probe := Expr{Pos: n.pos, src: n.src, node: n}
		at := probe.At(utf8.RuneCountInString(n.value[:m[0]]))
		whole := n.value[m[0]:m[1]]
		if m[4] == m[5] {
			d.report(at, width(whole), CodeReference, "${ without }", "$${ is a plain ${")
			ok = false
			continue
		}
		value, isSecret, why, hint := r.lookupIn(n, n.value[m[2]:m[3]])
		if why != "" {
			d.report(at, width(whole), CodeReference, why, hint)
			ok = false
			continue
		}
		secret = secret || isSecret
		out.WriteString(value)
	}
	out.WriteString(n.value[last:])
	return out.String(), secret, ok
}

// lookupIn is lookup for a node that may stand in a template.
func (r *resolver) lookupIn(n *node, body string) (value string, secret bool, why, hint string) {
	name, ok := strings.CutPrefix(body, "param:")
	if !ok {
		return r.lookup(body)
	}
	a, ok := n.params[name]
	switch {
	case n.params == nil:
		return "", false, "${param:…} stands in the steps of a template only", ""
	case !ok:
		return "", false, fmt.Sprintf("there is no parameter %q", name),
			"declare it under params: of the template"
	case a.value.kind != kindScalar:
		return "", false, fmt.Sprintf("the parameter %q is a list or a mapping, it cannot be part "+
			"of a text", name), ""
	}
	return a.value.value, false, "", ""
}

// lookup resolves the inside of one reference. why is empty on success.
func (r *resolver) lookup(body string) (value string, secret bool, why, hint string) {
	kind, name, ok := strings.Cut(body, ":")
	if !ok || name == "" {
		return "", false, fmt.Sprintf("${%s} is not a reference", body),
			"write ${env:X}, ${env:X:-default}, ${var:x}, ${file:/path} or ${secret:name}"
	}
	switch kind {
	case "env":
		name, def, hasDefault := strings.Cut(name, ":-")
		if v, ok := r.opts.Env(name); ok && (v != "" || !hasDefault) {
			return v, false, "", ""
		}
		if hasDefault {
			return def, false, "", ""
		}
		return "", false, fmt.Sprintf("environment variable %s is not set", name),
			fmt.Sprintf("set it, or give a default: ${env:%s:-value}", name)
	case "var":
		return r.lookupVar(name)
	case "file":
		if r.opts.ReadFile == nil {
			return "", false, "${file:…} is not allowed here", ""
		}
		text, err := r.opts.ReadFile(name)
		if err != nil {
			return "", false, fmt.Sprintf("cannot read ${file:%s}: %v", name, err), ""
		}
		return strings.TrimRight(string(text), "\r\n"), true, "", ""
	case "secret":
		if r.opts.Secret == nil {
			return "", true, "", "" // lint without secrets at hand: known to exist when it runs
		}
		v, err := r.opts.Secret(name)
		if err != nil {
			return "", false, fmt.Sprintf("cannot get ${secret:%s}: %v", name, err), ""
		}
		return v, true, "", ""
	}
	hint = "known: env, var, file, secret"
	if near := Nearest(kind, []string{"env", "var", "file", "secret"}); near != "" {
		hint = fmt.Sprintf("did you mean ${%s:%s}?", near, name)
	}
	return "", false, fmt.Sprintf("${%s:…} is not a kind of reference", kind), hint
}

func (r *resolver) lookupVar(name string) (value string, secret bool, why, hint string) {
	if r.inVars {
		return "", false, "a variable cannot refer to another one", ""
	}
	v, ok := r.vars[name]
	if !ok {
		names := make([]string, 0, len(r.vars))
		for k := range r.vars {
			names = append(names, k)
		}
		hint = "declare it under vars:"
		if near := Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return "", false, fmt.Sprintf("there is no variable %q", name), hint
	}
	return v.scalarText(), false, "", ""
}

// variable returns the variable a scalar consists of: exactly ${var:name}.
func (r *resolver) variable(n *node) (Tree, bool) {
	name, ok := strings.CutPrefix(n.value, "${var:")
	if !ok || r.inVars {
		return Tree{}, false
	}
	name, ok = strings.CutSuffix(name, "}")
	if !ok {
		return Tree{}, false
	}
	v, ok := r.vars[name]
	return v, ok
}

// scalarText is a scalar tree as a user would write it.
func (t *Tree) scalarText() string {
	switch t.Kind {
	case TreeBool:
		return strconv.FormatBool(t.Bool)
	case TreeInt:
		return strconv.FormatInt(t.Int, 10)
	case TreeFloat:
		return strconv.FormatFloat(t.Float, 'g', -1, 64)
	case TreeString:
		return t.Text
	}
	return ""
}

// override gives a variable the text of a --var flag, read as the variable's own type.
func (t *Tree) override(text string) error {
	var err error
	switch t.Kind {
	case TreeBool:
		t.Bool, err = strconv.ParseBool(text)
	case TreeInt:
		t.Int, err = strconv.ParseInt(text, 10, 64)
	case TreeFloat:
		t.Float, err = strconv.ParseFloat(text, 64)
	default:
		t.Kind, t.Text = TreeString, text
	}
	if err != nil {
		return fmt.Errorf("%q is not %s, as the value in the file is", text,
			map[TreeKind]string{TreeBool: "true or false", TreeInt: "a whole number",
				TreeFloat: "a number"}[t.Kind])
	}
	return nil
}
