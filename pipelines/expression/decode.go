package expression

import (
	"math"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Number is a JSON number that neither int64 nor float64 holds exactly enough: an integer beyond
// int64 or a value beyond float64. It is written as it was read. Expressions can pass it on and
// compare it with ==, but not calculate with it.
type Number string

// DecodeJSON reads one JSON text into map[string]any, []any, string, int64, float64, bool, nil or
// Number. The error is a *DecodeError.
func DecodeJSON(data []byte) (any, error) {
	var s scanner
	s.spans = make([]span, 1)
	if err := s.run(data, &path{}, 0, true); err != nil {
		return nil, err
	}
	return (&decoder{data: data}).value(), nil
}

// origins remembers where decoded objects came from, so that an object an expression passes on is
// written with its own bytes: its keys in their order, its numbers as they were. Go maps are
// compared by identity; the decoded map is alive as long as the entry is.
type origins map[unsafe.Pointer][]byte

func identity(m map[string]any) unsafe.Pointer { return reflect.ValueOf(m).UnsafePointer() }

// decoder reads text that the scanner found valid.
type decoder struct {
	data []byte
	pos  int
	from origins // may be nil
}

func (d *decoder) space() {
	for d.pos < len(d.data) && d.data[d.pos] <= ' ' {
		d.pos++
	}
}

func (d *decoder) value() any {
	d.space()
	switch d.data[d.pos] {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.str()
	case 't':
		d.pos += 4
		return true
	case 'f':
		d.pos += 5
		return false
	case 'n':
		d.pos += 4
		return nil
	}
	start := d.pos
	for d.pos < len(d.data) && isNumberByte(d.data[d.pos]) {
		d.pos++
	}
	return parseNumber(d.data[start:d.pos])
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func (d *decoder) object() any {
	start := d.pos
	m := map[string]any{}
	d.pos++
	for {
		d.space()
		switch d.data[d.pos] {
		case '}':
			d.pos++
			if d.from != nil {
				d.from[identity(m)] = d.data[start:d.pos]
			}
			return m
		case ',':
			d.pos++
			continue
		}
		key := d.str()
		d.space()
		d.pos++ // ':'
		m[key] = d.value()
	}
}

func (d *decoder) array() any {
	list := []any{}
	d.pos++
	for {
		d.space()
		switch d.data[d.pos] {
		case ']':
			d.pos++
			return list
		case ',':
			d.pos++
		default:
			list = append(list, d.value())
		}
	}
}

func (d *decoder) str() string {
	start, escaped := d.pos+1, false
	i := start
	for d.data[i] != '"' {
		if d.data[i] == '\\' {
			escaped = true
			i++
		}
		i++
	}
	d.pos = i + 1
	if escaped {
		return string(unescape(nil, d.data[start:i]))
	}
	return string(d.data[start:i])
}

// parseNumber keeps integers exact; "-0" is the float it is in JSON.
func parseNumber(text []byte) any {
	if i, ok := parseInt(text); ok {
		return i
	}
	s := string(text)
	for _, c := range text {
		if c == '.' || c == 'e' || c == 'E' {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return Number(s)
			}
			return x
		}
	}
	if s == "-0" {
		return math.Copysign(0, -1)
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	return Number(s)
}

// parseInt is the fast path: at most 18 digits, which cannot overflow.
func parseInt(text []byte) (int64, bool) {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) != len(text) {
		if n == 0 {
			return 0, false // -0
		}
		n = -n
	}
	return n, true
}

// unescape appends the text of a string's inside to dst. A lone surrogate becomes U+FFFD, as in
// encoding/json.
func unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			i++
			continue
		}
		switch c := s[i+1]; c {
		case 'u':
			r := hexRune(s[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				low := rune(utf8.RuneError)
				if i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
					low = hexRune(s[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		case 'b':
			dst, i = append(dst, '\b'), i+2
		case 'f':
			dst, i = append(dst, '\f'), i+2
		case 'n':
			dst, i = append(dst, '\n'), i+2
		case 'r':
			dst, i = append(dst, '\r'), i+2
		case 't':
			dst, i = append(dst, '\t'), i+2
		default: // '"', '\\', '/'
			dst, i = append(dst, c), i+2
		}
	}
	return dst
}

func hexRune(s []byte) rune {
	return hexDigit(s[0])<<12 | hexDigit(s[1])<<8 | hexDigit(s[2])<<4 | hexDigit(s[3])
}
