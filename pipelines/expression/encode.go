package expression

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends v as JSON without white space. Numbers are written as Go's encoding/json and
// JavaScript write them (an average that is whole as 3), times as RFC 3339 in UTC, durations as
// Go writes them, bytes as base64, and object keys in byte order.
func AppendJSON(dst []byte, v any) ([]byte, error) { return (&encoder{}).append(dst, v, 0) }

// encoder writes values; an object that is in from is written with its own bytes.
type encoder struct {
	from origins
}

func (e *encoder) append(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return appendString(dst, v), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case float64:
		return AppendFloat(dst, v)
	case bool:
		return strconv.AppendBool(dst, v), nil
	case Number:
		return append(dst, v...), nil
	case time.Time:
		return append(v.UTC().AppendFormat(append(dst, '"'), time.RFC3339Nano), '"'), nil
	case time.Duration:
		return appendString(dst, v.String()), nil
	case []byte:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), v)
		return append(dst, '"'), nil
	case map[string]any:
		return e.object(dst, v, depth)
	case []any:
		return e.list(dst, v, depth)
	}
	return e.reflected(dst, reflect.ValueOf(v), depth)
}

func (e *encoder) object(dst []byte, m map[string]any, depth int) ([]byte, error) {
	if e.from != nil {
		if raw, ok := e.from[identity(m)]; ok {
			return append(dst, raw...), nil
		}
	}
	if depth > maxJSONDepth {
		return dst, fmt.Errorf("encode: nested deeper than %d levels", maxJSONDepth)
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		var err error
		if dst, err = e.append(dst, m[k], depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func (e *encoder) list(dst []byte, list []any, depth int) ([]byte, error) {
	if depth > maxJSONDepth {
		return dst, fmt.Errorf("encode: nested deeper than %d levels", maxJSONDepth)
	}
	dst = append(dst, '[')
	for i, item := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = e.append(dst, item, depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// reflected writes what builtins make: typed slices, other integers, maps with other keys.
func (e *encoder) reflected(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	switch v.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case reflect.Float32:
		return AppendFloat(dst, v.Float())
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = v.Index(i).Interface()
		}
		return e.list(dst, list, depth)
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			key := it.Key()
			for key.Kind() == reflect.Interface {
				key = key.Elem()
			}
			name, err := keyText(key)
			if err != nil {
				return dst, err
			}
			m[name] = it.Value().Interface()
		}
		return (&encoder{from: e.from}).object(dst, m, depth)
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		return e.append(dst, v.Elem().Interface(), depth+1)
	case reflect.String:
		return appendString(dst, v.String()), nil
	}
	return dst, fmt.Errorf("encode: a value of type %s has no JSON form", v.Type())
}

// keyText is an object key made of a value, as groupBy has them.
func keyText(v reflect.Value) (string, error) {
	if !v.IsValid() {
		return "null", nil
	}
	text, _, err := AppendKey(nil, v.Interface())
	return string(text), err
}

// AppendFloat appends x as encoding/json and ECMAScript do: the fewest digits that give x back,
// without an exponent from 1e-6 to below 1e21. NaN and infinities have no JSON form.
func AppendFloat(dst []byte, x float64) ([]byte, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return dst, fmt.Errorf("encode: %v has no JSON form", x)
	}
	format := byte('f')
	if abs := math.Abs(x); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, x, format, -1, 64)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' &&
		dst[n-2] == '0' { // e-09 to e-9
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst, nil
}

// AppendKey appends v as record key: a string or bytes as they are, anything else as JSON. null
// is true for a nil.
func AppendKey(dst []byte, v any) (key []byte, null bool, err error) {
	switch v := v.(type) {
	case nil:
		return dst, true, nil
	case string:
		return append(dst, v...), false, nil
	case []byte:
		return append(dst, v...), v == nil, nil
	case time.Time:
		return v.UTC().AppendFormat(dst, time.RFC3339Nano), false, nil
	}
	dst, err = AppendJSON(dst, v)
	return dst, false, err
}

const hexDigits = "0123456789abcdef"

// appendString appends s quoted. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[done:i]...), "\ufffd"...)
				done = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[done:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		done = i
	}
	return append(append(dst, s[done:]...), '"')
}
