package sdk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// check compares v, as decodeJSON made it, with s. It returns v with defaults filled in and
// durations as nanoseconds, ready for json.Unmarshal into the Go type.
func check(s *shape, v any, pointer string) (any, []*pluginpb.Diagnostic) {
	wrong := func() (any, []*pluginpb.Diagnostic) {
		return v, []*pluginpb.Diagnostic{{
			Pointer: pointer, Message: fmt.Sprintf("is %s, want %s", describe(v), kindNames[s.kind]),
		}}
	}
	switch s.kind {
	case kindString:
		if _, ok := v.(string); !ok {
			return wrong()
		}
	case kindBool:
		if _, ok := v.(bool); !ok {
			return wrong()
		}
	case kindInt:
		return checkInt(s, v, pointer)
	case kindFloat:
		if _, ok := v.(json.Number); !ok {
			return wrong()
		}
	case kindDuration:
		text, ok := v.(string)
		d, err := time.ParseDuration(text)
		if !ok || err != nil {
			return wrong()
		}
		return json.Number(strconv.FormatInt(int64(d), 10)), nil
	case kindList:
		list, ok := v.([]any)
		if !ok {
			return wrong()
		}
		return checkList(s, list, pointer)
	case kindMap, kindObject:
		m, ok := v.(map[string]any)
		if !ok {
			return wrong()
		}
		if s.kind == kindMap {
			return checkMap(s, m, pointer)
		}
		return checkObject(s, m, pointer)
	}
	return v, nil
}

func describe(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(x)
	case bool:
		return strconv.FormatBool(x)
	case json.Number:
		return "the number " + string(x)
	case []any:
		return "a list"
	}
	return "an object"
}

func checkInt(s *shape, v any, pointer string) (any, []*pluginpb.Diagnostic) {
	n, ok := v.(json.Number)
	if ok {
		if i, err := n.Int64(); err == nil {
			if s.unsigned && i < 0 {
				return v, []*pluginpb.Diagnostic{{Pointer: pointer, Message: string(n) + " is negative"}}
			}
			return v, nil
		}
		if f, err := n.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return json.Number(strconv.FormatInt(int64(f), 10)), nil // 1e6
		}
	}
	return v, []*pluginpb.Diagnostic{{
		Pointer: pointer, Message: fmt.Sprintf("is %s, want an integer", describe(v)),
	}}
}

func checkList(s *shape, list []any, pointer string) (any, []*pluginpb.Diagnostic) {
	out := make([]any, len(list))
	var found []*pluginpb.Diagnostic
	for i, e := range list {
		v, f := check(s.elem, e, fmt.Sprintf("%s/%d", pointer, i))
		out[i], found = v, append(found, f...)
	}
	return out, found
}

func checkMap(s *shape, m map[string]any, pointer string) (any, []*pluginpb.Diagnostic) {
	out := make(map[string]any, len(m))
	var found []*pluginpb.Diagnostic
	for _, k := range sortedKeys(m) {
		v, f := check(s.elem, m[k], pointer+"/"+escapePointer(k))
		out[k], found = v, append(found, f...)
	}
	return out, found
}

func checkObject(s *shape, m map[string]any, pointer string) (any, []*pluginpb.Diagnostic) {
	out := make(map[string]any, len(s.fields))
	var found []*pluginpb.Diagnostic
	for i := range s.fields {
		f := &s.fields[i]
		at := pointer + "/" + escapePointer(f.name)
		v, ok := m[f.name]
		if !ok || v == nil {
			switch {
			case f.def != nil:
				v = f.def
			case f.required:
				found = append(found, &pluginpb.Diagnostic{Pointer: at, Message: "is required", Hint: f.doc})
				continue
			case f.shape.kind == kindObject:
				v = map[string]any{} // for the defaults inside
			default:
				continue
			}
		}
		clean, bad := check(f.shape, v, at)
		if bad == nil {
			bad = checkField(f, v, at)
		}
		out[f.name], found = clean, append(found, bad...)
	}
	for _, k := range sortedKeys(m) {
		if !slices.ContainsFunc(s.fields, func(f field) bool { return f.name == k }) {
			found = append(found, unknown(s, k, pointer))
		}
	}
	return out, found
}

// checkField applies min, max and enum to a value of the right kind.
func checkField(f *field, v any, pointer string) []*pluginpb.Diagnostic {
	bad := func(format string, args ...any) []*pluginpb.Diagnostic {
		return []*pluginpb.Diagnostic{{Pointer: pointer, Message: fmt.Sprintf(format, args...),
			Hint: f.doc}}
	}
	if text, ok := v.(string); ok && f.enum != nil && !slices.Contains(f.enum, text) {
		d := bad("%q is not one of %s", text, strings.Join(f.enum, ", "))
		if near := nearest(text, f.enum); near != "" {
			d[0].Hint = fmt.Sprintf("did you mean %q?", near)
		}
		return d
	}
	n, what, ok := measure(f.shape.kind, v)
	if !ok {
		return nil
	}
	limit := func(x float64) string {
		if f.shape.kind == kindDuration {
			return time.Duration(x).String()
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	switch {
	case f.min != nil && n < *f.min:
		return bad("%s is below the minimum %s", what, limit(*f.min))
	case f.max != nil && n > *f.max:
		return bad("%s is above the maximum %s", what, limit(*f.max))
	}
	return nil
}

// measure is the number min and max look at.
func measure(k kind, v any) (n float64, what string, ok bool) {
	switch x := v.(type) {
	case json.Number:
		n, err := x.Float64()
		return n, string(x), err == nil
	case string:
		if k == kindDuration {
			d, err := time.ParseDuration(x)
			return float64(d), x, err == nil
		}
		n := utf8.RuneCountInString(x)
		return float64(n), fmt.Sprintf("the length %d", n), true
	case []any:
		return float64(len(x)), fmt.Sprintf("the length %d", len(x)), true
	}
	return 0, "", false
}

func unknown(s *shape, name, pointer string) *pluginpb.Diagnostic {
	d := &pluginpb.Diagnostic{
		Pointer: pointer + "/" + escapePointer(name), Message: fmt.Sprintf("unknown field %q", name),
	}
	names := make([]string, len(s.fields))
	for i := range s.fields {
		names[i] = s.fields[i].name
	}
	if near := nearest(name, names); near != "" {
		d.Hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(names) > 0 {
		d.Hint = "known fields: " + strings.Join(names, ", ")
	} else {
		d.Hint = "there is nothing to configure"
	}
	return d
}

// nearest returns the candidate within a third of word's length in edits, "" when there is none.
func nearest(word string, candidates []string) string {
	best, limit := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < limit {
			best, limit = c, d
		}
	}
	return best
}

// distance is the number of edits (insert, delete, replace, swap of neighbours) between a and b, in
// bytes: the optimal string alignment distance.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

func escapePointer(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare[string])
	return keys
}
