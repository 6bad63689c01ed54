package lang

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// schemaGen builds the JSON Schema from the same struct fields the walker reads.
type schemaGen struct {
	defs map[string]any
}

// JSONSchema is the language as JSON Schema, draft 2020-12, for editors. Keys that are known but
// not supported yet are left out, so that an editor does not offer them.
func JSONSchema() []byte {
	g := &schemaGen{defs: map[string]any{}}
	long := g.of(reflect.TypeFor[Pipeline](), &field{})
	short := g.of(reflect.TypeFor[shorthand](), &field{})
	root := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Millstream pipeline",
		"if":      map[string]any{"required": []any{"to"}},
		"then":    short,
		"else":    long,
		"$defs":   g.defs,
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return []byte("{}") // maps of strings, numbers and lists always encode
	}
	return append(out, '\n')
}

// define puts a schema under $defs once and returns a reference to it.
func (g *schemaGen) define(name string, build func() map[string]any) map[string]any {
	if _, ok := g.defs[name]; !ok {
		g.defs[name] = nil // breaks recursion
		g.defs[name] = build()
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// of is the schema of Go type t in the row f of the table.
func (g *schemaGen) of(t reflect.Type, f *field) map[string]any {
	if t.Kind() == reflect.Pointer {
		return g.of(t.Elem(), f)
	}
	if l, ok := reflect.New(t).Interface().(leaf); ok {
		return l.schema(g, f)
	}
	return g.define(t.Name(), func() map[string]any { return g.object(t) })
}

func (g *schemaGen) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, f := range fieldsOf(t) {
		if f.notYet != "" {
			continue
		}
		p := g.of(f.typ, &f)
		described := map[string]any{"description": f.doc}
		if f.def != "" {
			described["default"] = f.def
			if n, err := strconv.ParseInt(f.def, 10, 64); err == nil {
				described["default"] = n
			}
		}
		for k, v := range p {
			described[k] = v
		}
		properties[f.key] = described
		if f.required {
			required = append(required, f.key)
		}
	}
	out := map[string]any{"type": "object", "properties": properties,
		"additionalProperties": false}
	if o, ok := reflect.New(t).Interface().(described); ok {
		_, out["description"] = o.object()
	}
	if len(required) > 0 {
		out["required"] = required
	}
	if t == reflect.TypeFor[Pipeline]() {
		out["required"] = []any{"version", "pipeline"}
	}
	return out
}
