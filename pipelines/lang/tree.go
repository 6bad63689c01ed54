package lang

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// Secret is a value that is never shown: every way of printing or encoding it gives ***.
type Secret struct{ value string }

const redacted = "***"

// NewSecret wraps a value that must not be shown.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal is the value itself, for the connector or plugin that needs it and nobody else.
func (s Secret) Reveal() string { return s.value }

// String is always ***.
func (s Secret) String() string { return redacted }

// GoString is always ***.
func (s Secret) GoString() string { return redacted }

// Format writes *** for every verb, %x and %+v included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalJSON is always "***".
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

// MarshalText is always ***.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalYAML is always ***.
func (s Secret) MarshalYAML() (any, error) { return redacted, nil }

// LogValue is always ***.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// TreeKind is the type of one Tree value.
type TreeKind uint8

// The kinds of a Tree.
const (
	TreeNull TreeKind = iota
	TreeBool
	TreeInt
	TreeFloat
	TreeString
	TreeSecret
	TreeList
	TreeMap
)

// String is the JSON Schema name of the kind.
func (k TreeKind) String() string {
	return [...]string{"null", "boolean", "integer", "number", "string", "string", "array",
		"object"}[k]
}

// Tree is a value whose shape the language does not know: a connector's or plugin's config, or a
// variable.
type Tree struct {
	Pos     Pos
	Kind    TreeKind
	Bool    bool
	Int     int64
	Float   float64
	Text    string // TreeString
	Secret  Secret // TreeSecret
	Items   []Tree
	Entries []Entry[Tree]
	// Referenced is true when a ${…} reference gave the text, so that it has no type of its own
	// and takes the one that is asked for.
	Referenced bool
	// Set is false when the key is absent or the value was not readable.
	Set bool
}

func (t *Tree) decode(d *decoder, n *node, f *field) {
	t.Pos, t.Set = n.pos, true
	switch n.kind {
	case kindMapping:
		t.Kind = TreeMap
		for _, p := range n.pairs {
			t.Entries = append(t.Entries, Entry[Tree]{Key: p.key.value, At: p.key.pos})
			t.Entries[len(t.Entries)-1].Value.decode(d, p.value, f)
		}
	case kindSequence:
		t.Kind = TreeList
		for _, item := range n.items {
			t.Items = append(t.Items, Tree{})
			t.Items[len(t.Items)-1].decode(d, item, f)
		}
	default:
		t.scalar(d, n)
	}
}

func (t *Tree) scalar(d *decoder, n *node) {
	if v, ok := d.refs.variable(n); ok { // exactly ${var:x}: keeps the variable's type
		pos := t.Pos
		*t = v
		t.Pos = pos
		return
	}
	text, secret, ok := d.refs.resolve(d, n)
	t.Set = ok
	switch {
	case secret:
		t.Kind, t.Secret = TreeSecret, NewSecret(text)
	case text != n.value || n.style != stylePlain:
		t.Kind, t.Text, t.Referenced = TreeString, text, text != n.value
	default:
		t.plain(n)
	}
}

// plain types an unquoted scalar as YAML 1.2's core schema does.
func (t *Tree) plain(n *node) {
	t.Kind, t.Text = TreeString, n.value
	switch n.tag {
	case "!!null":
		t.Kind = TreeNull
	case "!!bool":
		if b, err := strconv.ParseBool(n.value); err == nil {
			t.Kind, t.Bool = TreeBool, b
		}
	case "!!int":
		if i, err := strconv.ParseInt(strings.ReplaceAll(n.value, "_", ""), 0, 64); err == nil {
			t.Kind, t.Int = TreeInt, i
		}
	case "!!float":
		x, err := strconv.ParseFloat(n.value, 64)
		if err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			t.Kind, t.Float = TreeFloat, x
		}
	}
}

func (t *Tree) schema(_ *schemaGen, _ *field) map[string]any { return map[string]any{} }

// Any is the value as JSON-like Go values: map[string]any, []any, string, int64, float64, bool,
// nil. Secrets stay of type Secret unless reveal is true.
func (t *Tree) Any(reveal bool) any {
	switch t.Kind {
	case TreeBool:
		return t.Bool
	case TreeInt:
		return t.Int
	case TreeFloat:
		return t.Float
	case TreeString:
		return t.Text
	case TreeSecret:
		if reveal {
			return t.Secret.Reveal()
		}
		return t.Secret
	case TreeList:
		out := make([]any, len(t.Items))
		for i := range t.Items {
			out[i] = t.Items[i].Any(reveal)
		}
		return out
	case TreeMap:
		out := make(map[string]any, len(t.Entries))
		for i := range t.Entries {
			out[t.Entries[i].Key] = t.Entries[i].Value.Any(reveal)
		}
		return out
	}
	return nil
}

// JSON is the value as JSON with keys in file order and secrets as they are: it goes to the
// connector or plugin and nowhere else. MarshalJSON is the form to show.
func (t *Tree) JSON() []byte { return t.appendJSON(nil, true) }

// MarshalJSON is the value as JSON with keys in file order and secrets as ***.
func (t *Tree) MarshalJSON() ([]byte, error) { return t.appendJSON(nil, false), nil }

func (t *Tree) appendJSON(dst []byte, reveal bool) []byte {
	switch t.Kind {
	case TreeList:
		dst = append(dst, '[')
		for i := range t.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = t.Items[i].appendJSON(dst, reveal)
		}
		return append(dst, ']')
	case TreeMap:
		dst = append(dst, '{')
		for i := range t.Entries {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, t.Entries[i].Key), ':')
			dst = t.Entries[i].Value.appendJSON(dst, reveal)
		}
		return append(dst, '}')
	case TreeString:
		return appendString(dst, t.Text)
	default:
		text, err := json.Marshal(t.Any(reveal))
		if err != nil {
			return append(dst, "null"...)
		}
		return append(dst, text...)
	}
}

func appendString(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return append(dst, `""`...)
	}
	return append(dst, text...)
}

// At is the place of the value a JSON pointer (RFC 6901) names, or of the deepest part of it that
// exists. For a member it is the place of the value.
func (t *Tree) At(pointer string) Pos {
	at := t
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		next := (*Tree)(nil)
		for i := range at.Entries {
			if at.Entries[i].Key == name {
				next = &at.Entries[i].Value
			}
		}
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(at.Items) {
			next = &at.Items[i]
		}
		if next == nil {
			break
		}
		at = next
	}
	return at.Pos
}
