package check

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millstream-io/millstream/pipelines/lang"
)

// fault is one place where a value does not match its JSON Schema.
type fault struct {
	at      lang.Pos
	width   int
	message string
	hint    string
}

// validator checks a value against the part of JSON Schema draft 2020-12 that configs and the
// language's own schema use: type, enum, const, properties, required, additionalProperties,
// minProperties, maxProperties, items, minItems, maxItems, minimum, maximum, minLength, pattern,
// anyOf, if/then/else, $ref into $defs. Other keywords say nothing.
type validator struct {
	root   map[string]any
	faults []fault
}

func validate(schema map[string]any, value *lang.Tree) []fault {
	v := &validator{root: schema}
	v.value(schema, value, "the value", value.Pos)
	return v.faults
}

func (v *validator) fault(at lang.Pos, width int, hint, format string, args ...any) {
	v.faults = append(v.faults, fault{at, max(width, 1), fmt.Sprintf(format, args...), hint})
}

// matches reports whether value fits schema, without reporting.
func (v *validator) matches(schema map[string]any, value *lang.Tree) bool {
	quiet := &validator{root: v.root}
	quiet.value(schema, value, "", value.Pos)
	return len(quiet.faults) == 0
}

func (v *validator) value(schema map[string]any, t *lang.Tree, name string, keyAt lang.Pos) {
	if ref, ok := schema["$ref"].(string); ok {
		if target := v.resolve(ref); target != nil {
			v.value(target, t, name, keyAt)
		}
	}
	if cond, ok := schema["if"].(map[string]any); ok {
		branch := "else"
		if v.matches(cond, t) {
			branch = "then"
		}
		if next, ok := schema[branch].(map[string]any); ok {
			v.value(next, t, name, keyAt)
		}
	}
	if options, ok := schema["anyOf"].([]any); ok {
		v.anyOf(options, t, name)
	}
	if !v.kind(schema, t, name) {
		return
	}
	v.choice(schema, t, name)
	switch t.Kind {
	case lang.TreeMap:
		v.object(schema, t, name)
	case lang.TreeList:
		v.list(schema, t, name)
	case lang.TreeInt, lang.TreeFloat:
		v.number(schema, t, name)
	case lang.TreeString:
		v.text(schema, t, name)
	}
}

func (v *validator) resolve(ref string) map[string]any {
	at := any(v.root)
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[part]
	}
	m, _ := at.(map[string]any)
	return m
}

func (v *validator) anyOf(options []any, t *lang.Tree, name string) {
	var kinds []string
	for _, o := range options {
		m, ok := o.(map[string]any)
		if !ok || v.matches(m, t) {
			return
		}
		if k, ok := m["type"].(string); ok {
			kinds = append(kinds, k)
		}
	}
	hint := ""
	if len(kinds) > 0 {
		hint = "one of: " + strings.Join(kinds, ", ")
	}
	v.fault(t.Pos, width(t), hint, "%s has none of the allowed forms", name)
}

// kind checks the type. Text that came from a ${…} reference takes the type that is asked for.
func (v *validator) kind(schema map[string]any, t *lang.Tree, name string) bool {
	var wanted []string
	switch k := schema["type"].(type) {
	case string:
		wanted = []string{k}
	case []any:
		for _, item := range k {
			if s, ok := item.(string); ok {
				wanted = append(wanted, s)
			}
		}
	}
	if len(wanted) == 0 {
		return true
	}
	for _, w := range wanted {
		if w == t.Kind.String() || w == "number" && t.Kind == lang.TreeInt {
			return true
		}
	}
	if t.Kind == lang.TreeString && t.Referenced && coerce(t, wanted) {
		return true
	}
	v.fault(t.Pos, width(t), "", "%s must be of type %s, not %s", name,
		strings.Join(wanted, " or "), t.Kind)
	return false
}

// coerce reads a referenced text as one of the wanted types.
func coerce(t *lang.Tree, wanted []string) bool {
	for _, w := range wanted {
		switch w {
		case "integer":
			if i, err := strconv.ParseInt(t.Text, 10, 64); err == nil {
				t.Kind, t.Int = lang.TreeInt, i
				return true
			}
		case "number":
			x, err := strconv.ParseFloat(t.Text, 64)
			if err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
				t.Kind, t.Float = lang.TreeFloat, x
				return true
			}
		case "boolean":
			if t.Text == "true" || t.Text == "false" {
				t.Kind, t.Bool = lang.TreeBool, t.Text == "true"
				return true
			}
		}
	}
	return false
}

// plain is a scalar as JSON Schema compares it.
func plain(t *lang.Tree) any {
	switch t.Kind {
	case lang.TreeInt:
		return float64(t.Int)
	case lang.TreeSecret:
		return nil
	}
	return t.Any(false)
}

func (v *validator) choice(schema map[string]any, t *lang.Tree, name string) {
	if t.Kind == lang.TreeSecret || t.Kind == lang.TreeMap || t.Kind == lang.TreeList {
		return
	}
	if c, ok := schema["const"]; ok && c != plain(t) {
		v.fault(t.Pos, width(t), "", "%s must be %v", name, c)
	}
	enum, ok := schema["enum"].([]any)
	if !ok || slices.Contains(enum, plain(t)) {
		return
	}
	var names []string
	for _, e := range enum {
		names = append(names, fmt.Sprint(e))
	}
	hint := "one of " + strings.Join(names, ", ")
	if near := lang.Nearest(t.Text, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	v.fault(t.Pos, width(t), hint, "%s cannot be %v", name, plain(t))
}

func (v *validator) object(schema map[string]any, t *lang.Tree, name string) {
	properties, _ := schema["properties"].(map[string]any)
	var known []string
	for k := range properties {
		known = append(known, k)
	}
	sort.Strings(known)
	for i := range t.Entries {
		e := &t.Entries[i]
		if p, ok := properties[e.Key].(map[string]any); ok {
			v.value(p, &e.Value, e.Key+":", e.At)
			continue
		}
		switch more := schema["additionalProperties"].(type) {
		case map[string]any:
			v.value(more, &e.Value, e.Key+":", e.At)
		case bool:
			if !more {
				v.unknown(e, known)
			}
		}
	}
	required, _ := schema["required"].([]any)
	for _, r := range required {
		key, _ := r.(string)
		if !slices.ContainsFunc(t.Entries, func(e lang.Entry[lang.Tree]) bool {
			return e.Key == key
		}) {
			v.fault(t.Pos, 1, description(properties, key), "the setting %s: is missing", key)
		}
	}
	if n, ok := schema["minProperties"].(float64); ok && len(t.Entries) < int(n) {
		v.fault(t.Pos, 1, "", "%s needs at least %v keys", name, n)
	}
	if n, ok := schema["maxProperties"].(float64); ok && len(t.Entries) > int(n) {
		v.fault(t.Pos, 1, "", "%s may have at most %v keys", name, n)
	}
}

func (v *validator) unknown(e *lang.Entry[lang.Tree], known []string) {
	hint := "known: " + strings.Join(known, ", ")
	if near := lang.Nearest(e.Key, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	v.fault(e.At, utf8.RuneCountInString(e.Key), hint, "there is no setting %q", e.Key)
}

func description(properties map[string]any, key string) string {
	p, _ := properties[key].(map[string]any)
	text, _ := p["description"].(string)
	if text == "" {
		return "add  " + key + ": …"
	}
	return fmt.Sprintf("add  %s: … (%s)", key, text)
}

func (v *validator) list(schema map[string]any, t *lang.Tree, name string) {
	if items, ok := schema["items"].(map[string]any); ok {
		for i := range t.Items {
			v.value(items, &t.Items[i], fmt.Sprintf("%s item %d", name, i+1), t.Items[i].Pos)
		}
	}
	if n, ok := schema["minItems"].(float64); ok && len(t.Items) < int(n) {
		v.fault(t.Pos, 1, "", "%s needs at least %v items", name, n)
	}
	if n, ok := schema["maxItems"].(float64); ok && len(t.Items) > int(n) {
		v.fault(t.Pos, 1, "", "%s may have at most %v items", name, n)
	}
}

func (v *validator) number(schema map[string]any, t *lang.Tree, name string) {
	x := t.Float
	if t.Kind == lang.TreeInt {
		x = float64(t.Int)
	}
	if low, ok := schema["minimum"].(float64); ok && x < low {
		v.fault(t.Pos, width(t), "", "%s must be at least %v, not %v", name, low, x)
	}
	if high, ok := schema["maximum"].(float64); ok && x > high {
		v.fault(t.Pos, width(t), "", "%s must be at most %v, not %v", name, high, x)
	}
}

func (v *validator) text(schema map[string]any, t *lang.Tree, name string) {
	if n, ok := schema["minLength"].(float64); ok && utf8.RuneCountInString(t.Text) < int(n) {
		v.fault(t.Pos, width(t), "", "%s must not be empty", name)
	}
	pattern, ok := schema["pattern"].(string)
	if !ok {
		return
	}
	if p, err := regexp.Compile(pattern); err == nil && !p.MatchString(t.Text) {
		v.fault(t.Pos, width(t), "", "%s: %q does not have the form %s", name, t.Text, pattern)
	}
}

// width is how many characters of the file a scalar takes, as far as that is simple.
func width(t *lang.Tree) int {
	switch t.Kind {
	case lang.TreeString:
		return utf8.RuneCountInString(t.Text)
	case lang.TreeInt, lang.TreeFloat, lang.TreeBool:
		return len(fmt.Sprint(t.Any(false)))
	}
	return 1
}
