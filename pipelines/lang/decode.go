package lang

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// field is the row of the language's table for one key: its struct tag and its keyTexts entry.
//
//	yaml:"key"        the key; a field without it is not part of the language
//	enum:"a,b"        the only values
//	default:"…"       shown in the schema; applied by the reader of the tree
//	required:"true"   must be there
//	later:"a,b"       values that are known, but not supported yet
//	min:"n"           smallest integer
//	one:"true"        a list that may be written as its single item
//	lone:"true"       what a single value in place of the whole object would mean
type field struct {
	key      string
	doc      string
	enum     []string
	later    []string
	def      string
	notYet   string
	min      string
	required bool
	one      bool
	lone     bool
	index    int
	typ      reflect.Type
}

// decoder walks a node tree along Go types. It never stops at a mistake.
type decoder struct {
	refs     *resolver
	findings *[]Finding
	// owners says for every key of the language under which objects it may stand.
	owners map[string][]string
}

// leaf is a field type that reads itself from a node and describes itself as JSON Schema.
type leaf interface {
	decode(d *decoder, n *node, f *field)
	schema(g *schemaGen, f *field) map[string]any
}

// whole is a struct with rules of its own, checked once its keys are read.
type whole interface {
	verify(d *decoder, n *node)
}

// described gives an object of the language its name for messages and the JSON Schema.
type described interface {
	object() (name, doc string)
}

func (d *decoder) report(pos Pos, width int, code Code, message, hint string) {
	report(d.findings, pos, width, code, message, hint)
}

// reportAt reports at a node, underlining its value when that is on one line.
func (d *decoder) reportAt(n *node, code Code, message, hint string) {
	w := 1
	if n.kind == kindScalar && n.src != nil && n.style != styleLiteral && n.style != styleFolded {
		places := n.src.scalarPlaces(n)
		if end := places[len(places)-1]; end.line == n.pos.Line && end.col > n.pos.Col {
			w = end.col - n.pos.Col
			if n.style != stylePlain {
				w++ // the closing quote
			}
		}
	} else if n.src == nil {
		w = width(n.value)
	}
	d.report(n.pos, w, code, message, hint)
}

// wrongKind reports a value of another shape than the one needed.
func (d *decoder) wrongKind(n *node, want string) { d.wrongKindHint(n, want, "") }

func (d *decoder) wrongKindHint(n *node, want, hint string) {
	have := n.kind.String()
	if n.isNull() {
		have = "nothing"
	}
	d.reportAt(n, CodeWrongKind, fmt.Sprintf("%s is needed here, this is %s", want, have), hint)
}

// fieldsOf reads the table row of every key of struct type t.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		key := sf.Tag.Get("yaml")
		if key == "" {
			continue
		}
		text := keyTexts[t.Name()+"."+key]
		f := field{
			key: key, doc: text.doc, def: sf.Tag.Get("default"), index: i,
			notYet: text.later, min: sf.Tag.Get("min"), typ: sf.Type,
			required: sf.Tag.Get("required") == "true", one: sf.Tag.Get("one") == "true",
			lone: sf.Tag.Get("lone") == "true",
		}
		if v := sf.Tag.Get("enum"); v != "" {
			f.enum = strings.Split(v, ",")
		}
		if v := sf.Tag.Get("later"); v != "" {
			f.later = strings.Split(v, ",")
		}
		out = append(out, f)
	}
	return out
}

// into reads n into v, which is a leaf, a pointer or a struct of the language.
func (d *decoder) into(v reflect.Value, n *node, f *field) {
	if v.Kind() == reflect.Pointer {
		if n.isNull() {
			d.wrongKind(n, "a value")
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		d.into(v.Elem(), n, f)
		return
	}
	if l, ok := v.Addr().Interface().(leaf); ok {
		l.decode(d, n, f)
		return
	}
	d.object(v, n)
}

// object reads the keys of a mapping into the struct v.
func (d *decoder) object(v reflect.Value, n *node) {
	name := objectName(v.Type())
	if n.kind != kindMapping {
		d.wrongKindHint(n, "a mapping ("+name+")", loneHint(v.Type(), n))
		return
	}
	if p := v.FieldByName("Pos"); p.IsValid() {
		p.Set(reflect.ValueOf(n.pos))
	}
	fields, later := fieldsOf(v.Type()), false
	for _, p := range n.pairs {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == p.key.value })
		if i < 0 {
			n.unknown = true
			if near := d.unknownKey(p.key, name, fields); near != "" {
				n.guessed = append(n.guessed, near)
			}
			continue
		}
		f := &fields[i]
		if f.notYet != "" {
			code := CodeNotYetKey
			if name == "step" {
				code = CodeNotYetOperator
			}
			d.report(p.key.pos, width(f.key), code, f.key+": is not supported yet", f.notYet)
			later = true
			continue
		}
		d.into(v.Field(f.index), p.value, f)
	}
	for _, f := range fields {
		if f.required && !later && !n.has(f.key) {
			d.report(n.pos, 1, CodeMissingKey, fmt.Sprintf("%s needs %s:", name, f.key),
				"add  "+f.key+": … ("+f.doc+")")
		}
	}
	if w, ok := v.Addr().Interface().(whole); ok {
		w.verify(d, n)
	}
}

// loneHint shows how a single value is written where an object is needed.
func loneHint(object reflect.Type, n *node) string {
	if n.kind != kindScalar || n.isNull() || width(n.value) > 40 {
		return ""
	}
	for _, f := range fieldsOf(object) {
		if f.lone {
			return fmt.Sprintf("write it as {%s: %s}", f.key, n.value)
		}
	}
	return ""
}

// unknownKey reports a key that is not in the table, with the nearest name or the place where the
// key belongs. It returns the nearest name.
func (d *decoder) unknownKey(key *node, name string, fields []field) (near string) {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	message := fmt.Sprintf("%s has no key %q", name, key.value)
	if near = Nearest(key.value, keys); near != "" {
		d.reportAt(key, CodeUnknownKey, message, fmt.Sprintf("did you mean %q?", near))
		return near
	}
	if owners := d.owners[key.value]; len(owners) > 0 {
		d.reportAt(key, CodeMisplacedKey, message,
			fmt.Sprintf("%s: belongs under %s; check the indentation", key.value,
				strings.Join(owners, " or ")))
		return ""
	}
	keys = nil
	for _, f := range fields {
		if f.notYet == "" {
			keys = append(keys, f.key)
		}
	}
	d.reportAt(key, CodeUnknownKey, message, "known here: "+strings.Join(keys, ", "))
	return ""
}

// keyOwners collects, for every key of the language, the objects that have it, starting at t.
func keyOwners(t reflect.Type) map[string][]string {
	owners, seen := map[string][]string{}, map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		if strings.HasPrefix(t.Name(), "Map[") || strings.HasPrefix(t.Name(), "List[") {
			items := t.Field(0).Type.Elem() // Entries or Items
			if v, ok := items.FieldByName("Value"); strings.HasPrefix(t.Name(), "Map[") && ok {
				items = v.Type
			}
			walk(items)
			return
		}
		for _, f := range fieldsOf(t) {
			name := objectName(t)
			if !slices.Contains(owners[f.key], name) {
				owners[f.key] = append(owners[f.key], name)
			}
			walk(f.typ)
		}
	}
	walk(t)
	return owners
}

// objectName is how messages call an object of type t.
func objectName(t reflect.Type) string {
	if o, ok := reflect.New(t).Interface().(described); ok {
		name, _ := o.object()
		return name
	}
	return strings.ToLower(t.Name())
}

func width(s string) int { return utf8.RuneCountInString(s) }

// Nearest returns the candidate that s is probably a slip of, or "" when none is near: at most a
// third of the characters may differ (Damerau-Levenshtein distance).
func Nearest(s string, candidates []string) string {
	best, bestDistance := "", 0
	for _, c := range candidates {
		dist := distance([]rune(strings.ToLower(s)), []rune(strings.ToLower(c)))
		limit := max(1, max(width(s), width(c))/3)
		if dist <= limit && (best == "" || dist < bestDistance) {
			best, bestDistance = c, dist
		}
	}
	return best
}

// distance is the optimal string alignment distance: insert, delete, replace, swap neighbours.
func distance(a, b []rune) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
