package sdk

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// errJSON says that bytes are not one JSON value (RFC 8259).
var errJSON = errors.New("not valid JSON")

// maxDepth bounds nesting, so that hostile input cannot exhaust the stack.
const maxDepth = 512

// span is the half-open range [from, to) of a JSON value.
type span struct{ from, to int }

// member is what findMember tells about an object: where the value of a key lies, or where a member
// could be inserted.
type member struct {
	found  bool
	value  span
	key    span // with its quotes
	insert int  // just after the last member, or after the brace
	empty  bool // the object has no members
	before int  // end of the member before the found one, -1 when it is the first
	next   int  // start of the key after the found one, -1 when it is the last
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i, or -1.
func skipValue(b []byte, i, depth int) int {
	if i >= len(b) || depth > maxDepth {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == '{':
		return skipObject(b, i, depth)
	case c == '[':
		return skipArray(b, i, depth)
	case c == 't':
		return skipWord(b, i, "true")
	case c == 'f':
		return skipWord(b, i, "false")
	case c == 'n':
		return skipWord(b, i, "null")
	default:
		return skipNumber(b, i)
	}
}

func skipWord(b []byte, i int, word string) int {
	if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
		return i + len(word)
	}
	return -1
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			i++
			if i >= len(b) {
				return -1
			}
			if b[i] == 'u' {
				if i+4 >= len(b) || !isHex(b[i+1:i+5]) {
					return -1
				}
				i += 4
			} else if strings.IndexByte(`"\/bfnrt`, b[i]) < 0 {
				return -1
			}
		}
	}
	return -1
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

func skipNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	from := i
	i = skipDigits(b, i)
	if i == from || b[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		from, i = i+1, skipDigits(b, i+1)
		if i == from {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from, i = i, skipDigits(b, i)
		if i == from {
			return -1
		}
	}
	return i
}

func skipArray(b []byte, i, depth int) int {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = skipValue(b, i, depth+1); i < 0 {
			return -1
		}
		i = skipSpace(b, i)
		switch {
		case i >= len(b):
			return -1
		case b[i] == ']':
			return i + 1
		case b[i] != ',':
			return -1
		}
		i = skipSpace(b, i+1)
	}
}

func skipObject(b []byte, i, depth int) int {
	_, end := scanObject(b, i, depth, "", false)
	return end
}

// findMember looks for key in the object at i. Of several members with that key the last counts, as
// in encoding/json. The error is errJSON.
func findMember(b []byte, i int, key string) (member, error) {
	m, end := scanObject(b, i, 0, key, true)
	if end < 0 {
		return member{}, errJSON
	}
	return m, nil
}

// scanObject reads the object at i to its end, -1 when it is broken.
func scanObject(b []byte, i, depth int, key string, look bool) (member, int) {
	m := member{before: -1, next: -1}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		m.empty, m.insert = true, i
		return m, i + 1
	}
	last := -1 // end of the member before
	for {
		if i >= len(b) || b[i] != '"' {
			return m, -1
		}
		k := span{i, skipString(b, i)}
		if k.to < 0 {
			return m, -1
		}
		if m.found && m.next < 0 {
			m.next = k.from
		}
		if i = skipSpace(b, k.to); i >= len(b) || b[i] != ':' {
			return m, -1
		}
		v := span{from: skipSpace(b, i+1)}
		if v.to = skipValue(b, v.from, depth+1); v.to < 0 {
			return m, -1
		}
		if look && sameKey(b[k.from+1:k.to-1], key) {
			m.found, m.value, m.key, m.before, m.next = true, v, k, last, -1
		}
		last, m.insert = v.to, v.to
		i = skipSpace(b, v.to)
		switch {
		case i >= len(b):
			return m, -1
		case b[i] == '}':
			return m, i + 1
		case b[i] != ',':
			return m, -1
		}
		i = skipSpace(b, i+1)
	}
}

// sameKey compares the inside of a JSON string with key.
func sameKey(raw []byte, key string) bool {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw) == key
	}
	return unquote(raw) == key
}

// findElement returns the span of element n of the array at i, false when there is none.
func findElement(b []byte, i, n int) (span, bool, error) {
	if skipArray(b, i, 0) < 0 {
		return span{}, false, errJSON
	}
	i = skipSpace(b, i+1)
	for b[i] != ']' {
		end := skipValue(b, i, 1)
		if n == 0 {
			return span{i, end}, true, nil
		}
		n--
		if i = skipSpace(b, end); b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return span{}, false, nil
}

// unquote decodes the inside of a valid JSON string. Broken UTF-8 and lone surrogates become
// U+FFFD.
func unquote(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			r, n := utf8.DecodeRune(raw[i:])
			out = utf8.AppendRune(out, r)
			i += n
			continue
		}
		i++
		switch raw[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hexRune(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(raw) >= i+7 && raw[i+1] == '\\' && raw[i+2] == 'u' {
					low = hexRune(raw[i+3:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, raw[i])
		}
		i++
	}
	return string(out)
}

func hexRune(b []byte) rune {
	v, err := strconv.ParseUint(string(b[:4]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(v)
}
