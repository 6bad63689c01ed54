package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// errNotObject says that a path leads through something that has no members.
var errNotObject = errors.New("not an object")

// Get returns the part of the JSON value at path, nil when there is none or the value is not
// JSON. Names are joined by dots ("user.address.0.city"; `\.` is a dot inside a name), numbers
// index arrays; "" is the whole value. Numbers are int64 when they are integers that fit, else
// float64; objects are map[string]any and arrays []any.
func (r *Record) Get(path string) any {
	at, ok, err := lookup(r.r.Value, path)
	if err != nil || !ok {
		return nil
	}
	v, err := decodeValue(r.r.Value[at.from:at.to])
	if err != nil {
		return nil
	}
	return v
}

// lookup finds the value at path. The bytes along the path are checked, and so is what it finds.
func lookup(b []byte, path string) (at span, found bool, err error) {
	i := skipSpace(b, 0)
	if path != "" && i < len(b) && b[i] == '{' { // the usual case, in one pass
		var name string
		name, path = cutPath(path)
		m, err := findFirst(b, i, name)
		if err != nil || !m.found {
			return span{}, false, err
		}
		at = m.value
	} else {
		end := skipValue(b, i, 0)
		if end < 0 || skipSpace(b, end) != len(b) {
			return span{}, false, errJSON
		}
		at = span{i, end}
	}
	for path != "" {
		name, rest := cutPath(path)
		path = rest
		switch b[at.from] {
		case '{':
			m, err := findMember(b, at.from, name)
			if err != nil || !m.found {
				return span{}, false, err
			}
			at = m.value
		case '[':
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 {
				return span{}, false, nil
			}
			var ok bool
			if at, ok, err = findElement(b, at.from, n); err != nil || !ok {
				return span{}, false, err
			}
		default:
			return span{}, false, nil
		}
	}
	return at, true, nil
}

// findFirst is findMember for the object that is the whole of b.
func findFirst(b []byte, i int, name string) (member, error) {
	m, end := scanObject(b, i, 0, name, true)
	if end < 0 || skipSpace(b, end) != len(b) {
		return member{}, errJSON
	}
	return m, nil
}

// cutPath splits the first name off a path.
func cutPath(path string) (name, rest string) {
	if i := strings.IndexAny(path, `.\`); i < 0 {
		return path, ""
	} else if path[i] == '.' {
		return path[:i], path[i+1:]
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path):
			i++
			b.WriteByte(path[i])
		case path[i] == '.':
			return b.String(), path[i+1:]
		default:
			b.WriteByte(path[i])
		}
	}
	return b.String(), ""
}

// decodeValue turns JSON into Go values; integers stay exact.
func decodeValue(b []byte) (any, error) {
	switch b[0] {
	case '"':
		if bytes.IndexByte(b, '\\') < 0 {
			return strings.ToValidUTF8(string(b[1:len(b)-1]), "\uFFFD"), nil
		}
		return unquote(b[1 : len(b)-1]), nil
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case 'n':
		return nil, nil
	case '{', '[':
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		return numbers(v), nil
	}
	return number(string(b)), nil
}

func number(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil
	}
	return f
}

func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		return number(string(x))
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	}
	return v
}

// Set puts v at path in the JSON value, making objects along the way where there is nothing.
// All other bytes of the value stay as they are. It fails when the value is not JSON, when the
// path leads through something that is neither object nor array, or when v cannot be JSON.
func (r *Record) Set(path string, v any) error {
	b := r.r.Value
	if path == "" {
		out, err := appendValue(nil, v)
		if err != nil {
			return fmt.Errorf("set the value: %w", err)
		}
		r.SetValue(out)
		return nil
	}
	out, err := r.splice(b, path, v)
	if err != nil {
		return fmt.Errorf("set %q: %w", path, err)
	}
	r.spare, r.owned = r.owned, out
	r.r.Value = out
	return nil
}

// splice writes b with v at path into the spare memory.
func (r *Record) splice(b []byte, path string, v any) ([]byte, error) {
	at := skipSpace(b, 0)
	find := findFirst
	if at == len(b) || b[at] != '{' {
		if end := skipValue(b, at, 0); end < 0 || skipSpace(b, end) != len(b) {
			return nil, errJSON
		}
	}
	for {
		name, rest := cutPath(path)
		path = rest
		var hit span
		switch b[at] {
		case '{':
			m, err := find(b, at, name)
			find = findMember
			if err != nil {
				return nil, err
			}
			if !m.found {
				return r.insert(b, m, name, path, v)
			}
			hit = m.value
		case '[':
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("%q does not index an array", name)
			}
			e, ok, err := findElement(b, at, n)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, fmt.Errorf("the array has no element %d", n)
			}
			hit = e
		default:
			return nil, fmt.Errorf("%.20q is %w", b[at:], errNotObject)
		}
		if path == "" {
			out := append(r.spare[:0], b[:hit.from]...)
			out, err := appendValue(out, v)
			return append(out, b[hit.to:]...), err
		}
		at = hit.from
	}
}

// insert adds the member name, and objects for the rest of the path, to the object m describes.
func (r *Record) insert(b []byte, m member, name, path string, v any) ([]byte, error) {
	out := append(r.spare[:0], b[:m.insert]...)
	if !m.empty {
		out = append(out, ',')
	}
	out = append(appendString(out, name), ':')
	depth := 0
	for ; path != ""; depth++ {
		name, path = cutPath(path)
		out = append(appendString(append(out, '{'), name), ':')
	}
	out, err := appendValue(out, v)
	for range depth {
		out = append(out, '}')
	}
	return append(out, b[m.insert:]...), err
}

// Unset removes the member at path from the JSON value. What is not there is no error.
func (r *Record) Unset(path string) error {
	b := r.r.Value
	parent, name := "", path
	for i, p := 0, path; ; {
		n, rest := cutPath(p)
		if rest == "" {
			name = n
			if i > 0 {
				parent = path[:i-1]
			}
			break
		}
		i += len(p) - len(rest)
		p = rest
	}
	at, ok, err := lookup(b, parent)
	if err != nil {
		return fmt.Errorf("unset %q: value is %w", path, err)
	}
	if !ok || b[at.from] != '{' {
		return nil
	}
	for {
		m, err := findMember(b, at.from, name)
		if err != nil || !m.found {
			return err
		}
		from, to := m.key.from, m.value.to
		if m.next >= 0 {
			to = m.next
		} else if m.before >= 0 {
			from = m.before
		}
		out := append(append(r.spare[:0], b[:from]...), b[to:]...)
		r.spare, r.owned = r.owned, out
		r.r.Value, b = out, out
	}
}

// appendValue appends v as JSON, numbers as Go and JavaScript write them, <, > and & as they are.
func appendValue(dst []byte, v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return appendString(dst, x), nil
	case bool:
		return strconv.AppendBool(dst, x), nil
	case int:
		return strconv.AppendInt(dst, int64(x), 10), nil
	case int64:
		return strconv.AppendInt(dst, x, 10), nil
	}
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			b := bytes.NewBuffer(dst)
			e := json.NewEncoder(b)
			e.SetEscapeHTML(false)
			_ = e.Encode(s) // a string always encodes
			return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
		}
	}
	dst = append(append(dst, '"'), s...)
	return append(dst, '"')
}
