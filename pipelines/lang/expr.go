package lang

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Expr is the source of one expression with the way back into the file.
type Expr struct {
	Text string
	Pos  Pos // place of the scalar, its quote included
	Set  bool

	src    *File
	node   *node
	skip   int     // characters of the scalar before Text, for an expression inside a template
	places []place // filled on the first call of At
}

// At is the place in the file of character offset (counted in characters, not bytes) of Text.
func (e *Expr) At(offset int) Pos {
	if e.node == nil {
		return e.Pos
	}
	if e.places == nil {
		e.places = e.src.scalarPlaces(e.node)
	}
	i := min(max(offset+e.skip, 0), len(e.places)-1)
	return Pos{e.Pos.File, e.places[i].line, e.places[i].col}
}

func (e *Expr) decode(d *decoder, n *node, f *field) {
	if n.kind != kindScalar || n.isNull() {
		d.wrongKind(n, "an expression")
		return
	}
	if n.style == styleFolded {
		d.report(n.pos, 1, CodeFolded, "an expression must not be a folded block (>)",
			"use | instead, it keeps lines and positions")
		return
	}
	if n.params != nil && paramPattern.MatchString(n.value) {
		text, why := n.inExpression()
		if why != "" {
			d.reportAt(n, CodeReference, why, "declare it under params: of the template")
			return
		}
		made := *n
		made.value = text
		n = &made
	}
	if i := strings.Index(n.value, "${"); i >= 0 {
		probe := Expr{Text: n.value, Pos: n.pos, src: n.src, node: n}
		at := probe.At(utf8.RuneCountInString(n.value[:i]))
		d.report(at, 2, CodeExprReference, "${…} is not read inside an expression",
			"declare it under vars: and write vars.name")
		return
	}
	if strings.TrimSpace(n.value) == "" {
		d.reportAt(n, CodeExprSyntax, "the expression is empty", "")
		return
	}
	*e = Expr{Text: n.value, Pos: n.pos, Set: true, src: n.src, node: n}
}

func (e *Expr) schema(_ *schemaGen, _ *field) map[string]any {
	return map[string]any{"type": []any{"string", "number", "boolean"},
		"description": "an expression"}
}

// Projection builds a value: one expression for all of it, or fields in the order written.
type Projection struct {
	Whole  Expr
	Fields []Entry[Projection]
	Pos    Pos
	Set    bool
}

func (p *Projection) decode(d *decoder, n *node, f *field) {
	p.Pos = n.pos
	switch n.kind {
	case kindMapping:
		p.Set = true
		for _, kv := range n.pairs {
			p.Fields = append(p.Fields, Entry[Projection]{Key: kv.key.value, At: kv.key.pos})
			p.Fields[len(p.Fields)-1].Value.decode(d, kv.value, f)
		}
	case kindSequence:
		d.wrongKind(n, "an expression or a mapping of fields")
	default:
		p.Whole.decode(d, n, f)
		p.Set = p.Whole.Set
	}
}

func (p *Projection) schema(g *schemaGen, _ *field) map[string]any {
	return g.define("Projection", func() map[string]any {
		return map[string]any{
			"description": "an expression, or fields in the order they are to be written",
			"anyOf": []any{
				(&Expr{}).schema(g, nil),
				map[string]any{"type": "object",
					"additionalProperties": map[string]any{"$ref": "#/$defs/Projection"}},
			},
		}
	})
}

// Each calls fn for every expression of the projection, in the order written.
func (p *Projection) Each(fn func(path []string, e *Expr)) { p.each(nil, fn) }

func (p *Projection) each(path []string, fn func([]string, *Expr)) {
	if p.Whole.Set {
		fn(path, &p.Whole)
	}
	for i := range p.Fields {
		p.Fields[i].Value.each(append(path[:len(path):len(path)], p.Fields[i].Key), fn)
	}
}

// Template is text with expressions in {{ }}.
type Template struct {
	Parts []TemplatePart
	Pos   Pos
	Set   bool
}

// TemplatePart is literal text, or an expression when Expr is set.
type TemplatePart struct {
	Text string
	Expr Expr
}

func (t *Template) decode(d *decoder, n *node, _ *field) {
	if n.kind != kindScalar || n.isNull() {
		d.wrongKind(n, "a text")
		return
	}
	whole := Expr{Text: n.value, Pos: n.pos, src: n.src, node: n}
	t.Pos, t.Set = n.pos, true
	rest, done := n.value, 0
	for {
		before, after, ok := strings.Cut(rest, "{{")
		if before != "" {
			t.Parts = append(t.Parts, TemplatePart{Text: before})
		}
		if !ok {
			return
		}
		start := done + utf8.RuneCountInString(before)
		body, tail, ok := strings.Cut(after, "}}")
		if !ok || strings.TrimSpace(body) == "" {
			d.report(whole.At(start), 2, CodeTemplate, "{{ without an expression and }}",
				"write {{ value.field }}")
			t.Set = false
			return
		}
		e := Expr{Text: body, Pos: whole.At(start + 2), Set: true, src: n.src, node: n,
			skip: start + 2}
		t.Parts = append(t.Parts, TemplatePart{Expr: e})
		done = start + 4 + utf8.RuneCountInString(body)
		rest = tail
	}
}

func (t *Template) schema(_ *schemaGen, _ *field) map[string]any {
	return map[string]any{"type": "string", "description": "text with {{ expressions }}"}
}

// Encoding says how bytes are read or written: a format and, for json, perhaps a schema.
type Encoding struct {
	Format Text
	Schema Name
	Pos    Pos
	Set    bool
}

var (
	formats      = []string{"json", "string", "bytes"}
	laterFormats = []string{"avro", "protobuf", "int64", "uuid"}
)

func (e *Encoding) decode(d *decoder, n *node, f *field) {
	e.Pos = n.pos
	row := &field{key: f.key, enum: formats, later: laterFormats}
	if n.kind != kindMapping {
		e.Format.decode(d, n, row)
		e.Set = e.Format.Set
		return
	}
	for _, p := range n.pairs {
		switch p.key.value {
		case "format":
			row.key = "format"
			e.Format.decode(d, p.value, row)
		case "schema":
			e.Schema.decode(d, p.value, &field{key: "schema"})
		default:
			d.unknownKey(p.key, f.key, []field{{key: "format"}, {key: "schema"}})
		}
	}
	if n.get("format") == nil {
		d.report(n.pos, 1, CodeMissingKey, fmt.Sprintf("%s needs format:", f.key),
			"add  format: json")
	}
	e.Set = e.Format.Set
}

func (e *Encoding) schema(g *schemaGen, _ *field) map[string]any {
	return g.define("Encoding", func() map[string]any {
		format := map[string]any{"type": "string", "enum": toAny(formats)}
		return map[string]any{"anyOf": []any{format, map[string]any{
			"type": "object", "required": []any{"format"}, "additionalProperties": false,
			"properties": map[string]any{"format": format,
				"schema": map[string]any{"type": "string"}},
		}}}
	})
}

// isEncoding reports whether a node is an Encoding where an expression could stand as well.
func isEncoding(n *node) bool {
	if n.kind == kindScalar {
		for _, f := range append(formats, laterFormats...) {
			if n.value == f {
				return true
			}
		}
		return false
	}
	for _, p := range n.pairs {
		if p.key.value != "format" && p.key.value != "schema" {
			return false
		}
	}
	return n.get("format") != nil
}

// KeyRule is a record key: how its bytes are read, or the expression that makes it.
type KeyRule struct {
	Encoding Encoding
	Expr     Expr
}

func (k *KeyRule) decode(d *decoder, n *node, f *field) {
	if isEncoding(n) {
		k.Encoding.decode(d, n, f)
		return
	}
	k.Expr.decode(d, n, f)
}

func (k *KeyRule) schema(g *schemaGen, f *field) map[string]any {
	return map[string]any{"anyOf": []any{
		(&Encoding{}).schema(g, f), (&Expr{}).schema(g, f)}}
}

// Output is what a sink writes as value: a format for the value as it is, or a new value.
type Output struct {
	Encoding   Encoding
	Projection Projection
}

func (o *Output) decode(d *decoder, n *node, f *field) {
	if isEncoding(n) {
		o.Encoding.decode(d, n, f)
		return
	}
	o.Projection.decode(d, n, f)
}

func (o *Output) schema(g *schemaGen, f *field) map[string]any {
	return map[string]any{"anyOf": []any{
		(&Encoding{}).schema(g, f), (&Projection{}).schema(g, f)}}
}
