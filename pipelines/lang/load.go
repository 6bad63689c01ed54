package lang

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
)

// Options are what a file's references resolve to. The zero value reads the process environment,
// allows no ${file:…} and treats every secret as one that will be there when the pipeline runs.
type Options struct {
	// Vars are values for the file's vars, as given with --var name=value.
	Vars map[string]string
	// Env looks up an environment variable. Default os.LookupEnv.
	Env func(name string) (string, bool)
	// ReadFile reads the file of a ${file:…} reference, from allowed folders only. nil: none is.
	ReadFile func(path string) ([]byte, error)
	// Include returns the text of a file that include: names, relative to the pipeline's. nil: there
	// is none to be had.
	Include func(path string) ([]byte, error)
	// Matched are the topics that the patterns of sources have found, by source; nil without a
	// cluster.
	Matched map[string][]string
	// Secret returns a secret. nil: the reference is accepted and gives an empty secret.
	Secret func(name string) (string, error)
}

func (o Options) withDefaults() Options {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	return o
}

// LanguageVersion is the version this package reads.
const LanguageVersion = 1

// Load reads a pipeline file. It always returns a tree, with what could not be read left unset,
// and every finding there is. name is used in positions only.
func Load(name string, text []byte, opts Options) (*Pipeline, []Finding) {
	src := newSource(name, text)
	p := &Pipeline{File: src}
	var findings []Finding
	root := parse(src, text, &findings)
	if root == nil {
		return p, SortFindings(findings)
	}
	p.Pos = root.pos
	d := &decoder{
		refs:     &resolver{src: src, opts: opts.withDefaults(), vars: map[string]Tree{}},
		findings: &findings,
		owners:   keyOwners(reflect.TypeFor[Pipeline]()),
	}
	d.includes(root)
	d.variables(root)
	d.expandUses(root)
	if root.kind == kindMapping && (root.get("from") != nil || root.get("to") != nil) &&
		root.get("steps") == nil && root.get("sources") == nil {
		var short shorthand
		d.object(reflect.ValueOf(&short).Elem(), root)
		short.expand(p)
	} else {
		d.object(reflect.ValueOf(p).Elem(), root)
		for i := range p.Vars.Entries { // with the values of --var
			p.Vars.Entries[i].Value = d.refs.vars[p.Vars.Entries[i].Key]
		}
		p.spreadTopics(opts.Matched)
	}
	if p.Version.Set && p.Version.Value != LanguageVersion {
		d.report(p.Version.Pos, 1, CodeVersion,
			fmt.Sprintf("language version %d is not known", p.Version.Value), "write  version: 1")
	}
	if root.kind == kindMapping && !root.has("version") && !p.Shorthand {
		d.report(root.pos, 1, CodeVersion, "the pipeline needs a language version",
			"add  version: 1  as first line")
	}
	return p, SortFindings(findings)
}

// variables reads vars: before everything else and applies the overrides.
func (d *decoder) variables(root *node) {
	quiet := []Finding{}
	vars := root.get("vars")
	if vars != nil && vars.kind == kindMapping {
		d.refs.inVars = true
		defer func() { d.refs.inVars = false }()
		for _, p := range vars.pairs {
			var t Tree
			inner := *d
			inner.findings = &quiet // reported when the tree is walked
			t.decode(&inner, p.value, &field{})
			d.variable(p, &t)
			d.refs.vars[p.key.value] = t
		}
	}
	names := make([]string, 0, len(d.refs.opts.Vars))
	for name := range d.refs.opts.Vars {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		d.override(root, vars, name, d.refs.opts.Vars[name])
	}
}

// variable checks what a variable may be: a single value, known when the file is read.
func (d *decoder) variable(p pair, t *Tree) {
	switch {
	case t.Kind == TreeSecret:
		d.reportAt(p.value, CodeReference, "a variable cannot hold a secret",
			"use the reference under config: itself")
	case t.Kind == TreeList || t.Kind == TreeMap || t.Kind == TreeNull:
		d.reportAt(p.value, CodeWrongKind,
			fmt.Sprintf("the variable %q must be a single value", p.key.value), "")
	case !idPattern.MatchString(p.key.value):
		d.reportAt(p.key, CodeBadName, fmt.Sprintf("%q is not a variable name", p.key.value), "")
	}
}

func (d *decoder) override(root, vars *node, name, text string) {
	t, ok := d.refs.vars[name]
	if !ok {
		at, hint := root.pos, "declare it under vars:"
		var known []string
		if vars != nil {
			at = vars.pos
			for _, p := range vars.pairs {
				known = append(known, p.key.value)
			}
		}
		slices.Sort(known)
		if near := Nearest(name, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		d.report(at, 1, CodeVarOverride, fmt.Sprintf("--var %s: there is no such variable", name),
			hint)
		return
	}
	if err := t.override(text); err != nil {
		d.report(t.Pos, 1, CodeVarOverride, fmt.Sprintf("--var %s: %v", name, err), "")
		return
	}
	d.refs.vars[name] = t
}

// expand turns the short form into the long one: a source and a sink around at most two steps.
func (s *shorthand) expand(p *Pipeline) {
	p.Version, p.Name, p.OnError, p.Shorthand = s.Version, s.Name, s.OnError, true
	if s.From.Set {
		p.Sources = Map[Source]{Pos: s.From.Pos, Entries: []Entry[Source]{{
			Key: "in", At: s.From.Pos, Value: Source{Topic: s.From, Pos: s.From.Pos},
		}}}
	}
	if s.Filter.Set {
		p.Steps.Items = append(p.Steps.Items, Step{Filter: s.Filter, Operator: "filter",
			Pos: s.Filter.Pos, OperatorPos: s.Filter.Pos})
	}
	if s.Map.Set {
		p.Steps.Items = append(p.Steps.Items, Step{Map: s.Map, Operator: "map",
			Pos: s.Map.Pos, OperatorPos: s.Map.Pos})
	}
	if s.To.Set {
		p.Sinks = Map[Sink]{Pos: s.To.Pos, Entries: []Entry[Sink]{{
			Key: "out", At: s.To.Pos, Value: Sink{Topic: s.To, Pos: s.To.Pos},
		}}}
	}
}

// ReadTree reads any YAML document as a Tree, under the limits of a pipeline file and without
// resolving references. It is nil when a finding is an error.
func ReadTree(name string, text []byte) (*Tree, []Finding) {
	src := newSource(name, text)
	var findings []Finding
	root := parse(src, text, &findings)
	if root == nil || HasErrors(findings) {
		return nil, SortFindings(findings)
	}
	d := &decoder{refs: &resolver{src: src, vars: map[string]Tree{}, inVars: true, off: true},
		findings: &findings}
	t := &Tree{}
	t.decode(d, root, &field{})
	return t, SortFindings(findings)
}
