package expression

import (
	"fmt"
	"slices"
	"time"

	"github.com/expr-lang/expr/types"
)

// Format says how the bytes of a key or value are read.
type Format uint8

// The formats.
const (
	// FormatJSON is one JSON text (RFC 8259) in UTF-8, without a key twice in an object.
	FormatJSON Format = iota
	// FormatString is UTF-8 text.
	FormatString
	// FormatBytes is anything.
	FormatBytes
)

// String is the format as written in a pipeline file.
func (f Format) String() string { return [...]string{"json", "string", "bytes"}[f] }

// ParseFormat reads a format's name; an empty one is json.
func ParseFormat(name string) (Format, error) {
	i := slices.Index([]string{"json", "string", "bytes"}, name)
	if name == "" {
		i = 0
	}
	if i < 0 {
		return 0, fmt.Errorf("unknown format %q", name)
	}
	return Format(i), nil
}

// Doc is a key or a value: how its bytes are read and what is known of it.
type Doc struct {
	Format Format
	Type   *Type // nil is Any
}

func (d Doc) typ() *Type {
	switch {
	case d.Format == FormatString:
		return &Type{Kind: KindString}
	case d.Format == FormatBytes:
		return &Type{Kind: KindBytes}
	case d.Type == nil:
		return Any
	}
	return d.Type
}

// Row is a table's row that a join added to the record under a name. Its bytes travel in the
// record header RowHeader(Name).
type Row struct {
	Name string
	Doc  Doc
	// Nullable is true after a left join.
	Nullable bool
}

// Var is a constant of the pipeline.
type Var struct {
	Name  string
	Value any // string, int64, float64 or bool
}

// Scope says what an expression sees.
type Scope struct {
	Key   Doc
	Value Doc
	Rows  []Row
	Vars  []Var
	// Window is true after an aggregate: window.start and window.end are there.
	Window bool
	// NotNull are paths that a filter has found not to be null.
	NotNull []string
}

// Row header names are private to the pipeline: a sink strips them.
const (
	rowHeaderPrefix = "ms-row-"
	// WindowHeader carries a window through a topic or a plugin: start and end in ms, as "s,e".
	WindowHeader = "ms-window"
)

// RowHeader is the record header that carries the joined row called name.
func RowHeader(name string) string { return rowHeaderPrefix + name }

// IsPrivateHeader reports whether a header belongs to the pipeline's inside, so that no sink may
// write it.
func IsPrivateHeader(key string) bool {
	return key == WindowHeader ||
		len(key) > len(rowHeaderPrefix) && key[:len(rowHeaderPrefix)] == rowHeaderPrefix
}

// names are the names at the top of an expression.
func (s *Scope) names() []string {
	out := []string{"key", "value", "headers", "timestamp", "topic", "partition", "offset", "vars"}
	if s.Window {
		out = append(out, "window")
	}
	for _, r := range s.Rows {
		out = append(out, r.Name)
	}
	return out
}

// Reserved reports whether a name has a meaning of its own in every expression, so that a join
// cannot use it for its row: a name of every scope, a function or a word of the language.
func Reserved(name string) bool {
	return slices.Contains([]string{"key", "value", "headers", "timestamp", "topic", "partition",
		"offset", "vars", "window", "agg", "left", "right", "error", "acc",
		"in", "not", "and", "or", "matches", "contains", "startsWith", "endsWith", "let", "if",
		"else", "true", "false", "nil"}, name) ||
		slices.Contains(functionNames(), name) || slices.Contains(laterFunctions, name)
}

// objectType is the scope as one type: what the checker calls the environment.
func (s *Scope) objectType() *Type {
	vars := &Type{Kind: KindObject}
	for _, v := range s.Vars {
		vars.Fields = append(vars.Fields, Field{v.Name, typeOf(v.Value)})
	}
	env := &Type{Kind: KindObject, Fields: []Field{
		{"key", s.Key.typ()}, {"value", s.Value.typ()},
		{"headers", &Type{Kind: KindObject, Open: true}},
		{"timestamp", &Type{Kind: KindTime}}, {"topic", &Type{Kind: KindString}},
		{"partition", &Type{Kind: KindInt}}, {"offset", &Type{Kind: KindInt}},
		{"vars", vars},
	}}
	if s.Window {
		at := &Type{Kind: KindTime}
		env.Fields = append(env.Fields, Field{"window",
			&Type{Kind: KindObject, Fields: []Field{{"start", at}, {"end", at}}}})
	}
	for _, r := range s.Rows {
		t := *r.Doc.typ()
		t.Nullable = t.Nullable || r.Nullable
		env.Fields = append(env.Fields, Field{r.Name, &t})
	}
	return env
}

func (s *Scope) checkerEnv() types.Map {
	env := types.Map{}
	for _, f := range s.objectType().Fields {
		env[f.Name] = f.Type.forChecker()
	}
	return env
}

func typeOf(v any) *Type {
	switch v.(type) {
	case string:
		return &Type{Kind: KindString}
	case int64, int:
		return &Type{Kind: KindInt}
	case float64:
		return &Type{Kind: KindFloat}
	case bool:
		return &Type{Kind: KindBool}
	case time.Time:
		return &Type{Kind: KindTime}
	}
	return Any
}
