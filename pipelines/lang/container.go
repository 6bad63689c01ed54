package lang

import (
	"fmt"
	"reflect"
)

// Map is a mapping whose keys the user chooses, in file order.
type Map[T any] struct {
	Entries []Entry[T]
	// Pos is the mapping's place; unset when the key is absent.
	Pos Pos
}

// Entry is one key of a Map with its value.
type Entry[T any] struct {
	Key   string
	At    Pos // place of the key
	Value T
}

// Get returns the value under key.
func (m *Map[T]) Get(key string) (*T, bool) {
	for i := range m.Entries {
		if m.Entries[i].Key == key {
			return &m.Entries[i].Value, true
		}
	}
	return nil, false
}

// Keys are the keys in file order.
func (m *Map[T]) Keys() []string {
	keys := make([]string, len(m.Entries))
	for i := range m.Entries {
		keys[i] = m.Entries[i].Key
	}
	return keys
}

func (m *Map[T]) decode(d *decoder, n *node, f *field) {
	if n.kind != kindMapping {
		d.wrongKind(n, "a mapping of names to "+objectName(reflect.TypeFor[T]()))
		return
	}
	m.Pos = n.pos
	for _, p := range n.pairs {
		m.Entries = append(m.Entries, Entry[T]{Key: p.key.value, At: p.key.pos})
		e := &m.Entries[len(m.Entries)-1]
		d.into(reflect.ValueOf(&e.Value).Elem(), p.value, &field{key: p.key.value, doc: f.doc})
	}
}

func (m *Map[T]) schema(g *schemaGen, _ *field) map[string]any {
	return map[string]any{
		"type": "object", "additionalProperties": g.of(reflect.TypeFor[T](), &field{}),
	}
}

// List is a sequence.
type List[T any] struct {
	Items []T
	// Pos is the list's place; unset when the key is absent.
	Pos Pos
}

func (l *List[T]) decode(d *decoder, n *node, f *field) {
	l.Pos = n.pos
	if n.kind != kindSequence {
		if f.one && n.kind == kindScalar && !n.isNull() {
			l.add(d, n, f)
			return
		}
		d.wrongKind(n, "a list")
		return
	}
	if len(n.items) == 0 && f.required {
		d.reportAt(n, CodeBadValue, fmt.Sprintf("%s: must not be empty", f.key), "")
	}
	for _, item := range n.items {
		l.add(d, item, f)
	}
}

func (l *List[T]) add(d *decoder, n *node, f *field) {
	l.Items = append(l.Items, *new(T))
	d.into(reflect.ValueOf(&l.Items[len(l.Items)-1]).Elem(), n,
		&field{key: f.key, doc: f.doc, enum: f.enum})
}

func (l *List[T]) schema(g *schemaGen, f *field) map[string]any {
	item := g.of(reflect.TypeFor[T](), &field{enum: f.enum})
	list := map[string]any{"type": "array", "items": item}
	if f.one {
		return map[string]any{"anyOf": []any{item, list}}
	}
	return list
}
