package lang

import (
	"fmt"
	"strings"
)

// Type is a declared type: of a schema's field, a list's items or a nested object.
type Type struct {
	// Name is string, int64, float64, number, bool, time, any, list or object.
	Name     string
	Nullable bool
	Item     *Type      // of a list
	Fields   *Map[Type] // of an object
	Pos      Pos
	Set      bool
}

var typeNames = []string{"string", "int64", "float64", "bool", "any"}

// typeSlips maps names of other languages to ours, for the hint.
var typeSlips = map[string]string{
	"int": "int64", "integer": "int64", "int32": "int64", "long": "int64", "bigint": "int64",
	"float": "float64", "double": "float64", "number": "float64", "decimal": "float64",
	"boolean": "bool", "str": "string", "text": "string", "varchar": "string",
	"timestamp": "string", "datetime": "string", "date": "string", "time": "string",
	"object": "a mapping of fields", "array": "[type]", "list": "[type]",
}

func (t *Type) decode(d *decoder, n *node, f *field) {
	t.Pos = n.pos
	switch n.kind {
	case kindMapping:
		t.Name, t.Set, t.Fields = "object", true, &Map[Type]{}
		t.Fields.decode(d, n, f)
	case kindSequence:
		if len(n.items) != 1 {
			d.reportAt(n, CodeBadType, "a list type has exactly one item type", "as [string]")
			return
		}
		t.Name, t.Item = "list", &Type{}
		t.Item.decode(d, n.items[0], f)
		t.Set = t.Item.Set
	default:
		t.scalar(d, n)
	}
}

func (t *Type) scalar(d *decoder, n *node) {
	for part := range strings.SplitSeq(n.value, "|") {
		part = strings.TrimSpace(part)
		switch {
		case part == "null":
			t.Nullable = true
		case t.Name != "":
			d.reportAt(n, CodeBadType, fmt.Sprintf("%q: a type is one of its kind or null",
				n.value), "use any where values of several types occur")
			return
		default:
			t.Name = part
		}
	}
	for _, name := range typeNames {
		if t.Name == name {
			t.Set = true
			return
		}
	}
	hint := "one of " + strings.Join(typeNames, ", ") + ", [type] or a mapping of fields"
	if slip, ok := typeSlips[strings.ToLower(t.Name)]; ok {
		hint = fmt.Sprintf("did you mean %s?", slip)
	} else if near := Nearest(t.Name, typeNames); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	d.reportAt(n, CodeBadType, fmt.Sprintf("%q is not a type", n.value), hint)
}

func (t *Type) schema(g *schemaGen, _ *field) map[string]any {
	return g.define("Type", func() map[string]any {
		ref := map[string]any{"$ref": "#/$defs/Type"}
		return map[string]any{"anyOf": []any{
			map[string]any{"type": "string",
				"pattern": `^(` + strings.Join(typeNames, "|") + `)( *\| *null)?$`},
			map[string]any{"type": "array", "items": ref, "minItems": 1, "maxItems": 1},
			map[string]any{"type": "object", "additionalProperties": ref},
		}}
	})
}

// String is the type as written in a file.
func (t *Type) String() string {
	switch {
	case t.Name == "list" && t.Item != nil:
		return "[" + t.Item.String() + "]"
	case t.Nullable:
		return t.Name + "|null"
	}
	return t.Name
}
