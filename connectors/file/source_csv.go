package file

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errQuote says that a quoted field does not end where the record does.
var errQuote = errors.New("a quoted field has no end")

// csvFields splits the text of one record (RFC 4180) into fields. errQuote means that more
// lines may complete it.
func csvFields(text []byte, delimiter byte, fields []string) ([]string, error) {
	fields = fields[:0]
	for {
		if len(text) == 0 || text[0] != '"' {
			i := bytes.IndexByte(text, delimiter)
			field := text
			if i >= 0 {
				field = text[:i]
			}
			if bytes.IndexByte(field, '"') >= 0 {
				return fields, fmt.Errorf("field %d has a quote inside but does not begin with one", len(fields)+1)
			}
			fields = append(fields, string(field))
			if i < 0 {
				return fields, nil
			}
			text = text[i+1:]
			continue
		}
		field, rest, err := quotedField(text[1:])
		if err != nil {
			return fields, err
		}
		fields = append(fields, field)
		if len(rest) == 0 {
			return fields, nil
		}
		if rest[0] != delimiter {
			return fields, fmt.Errorf("field %d goes on after its closing quote", len(fields))
		}
		text = rest[1:]
	}
}

// quotedField reads to the closing quote; two quotes stand for one.
func quotedField(text []byte) (field string, rest []byte, err error) {
	i := bytes.IndexByte(text, '"')
	if i >= 0 && (i+1 == len(text) || text[i+1] != '"') {
		return string(text[:i]), text[i+1:], nil
	}
	var b []byte
	for {
		if i < 0 {
			return "", nil, errQuote
		}
		b = append(b, text[:i]...)
		text = text[i+1:]
		if len(text) == 0 || text[0] != '"' {
			return string(b), text, nil
		}
		b = append(b, '"')
		text = text[1:]
		i = bytes.IndexByte(text, '"')
	}
}

// columns turn the fields of a csv record into a JSON object.
type columns struct {
	names []string
	keys  [][]byte // names as JSON, with their colon
	types []string
}

// newColumns reads the header row.
func newColumns(header []string, types map[string]string) (*columns, error) {
	c := &columns{names: header}
	seen := map[string]bool{}
	for i, name := range header {
		switch {
		case name == "":
			return nil, fmt.Errorf("column %d of the header has no name", i+1)
		case seen[name]:
			return nil, fmt.Errorf("the header names column %q twice", name)
		case !utf8.ValidString(name):
			return nil, fmt.Errorf("column %d of the header is not UTF-8", i+1)
		}
		seen[name] = true
		c.keys = append(c.keys, append(appendJSONString(nil, name), ':'))
		c.types = append(c.types, types[name])
	}
	for name := range types {
		if !seen[name] {
			return nil, fmt.Errorf("types: the header has no column %q; it has: %s", name,
				strings.Join(header, ", "))
		}
	}
	return c, nil
}

// object appends the fields as a JSON object.
func (c *columns) object(dst []byte, fields []string) ([]byte, error) {
	if len(fields) != len(c.names) {
		return dst, fmt.Errorf("%d fields, the header has %d", len(fields), len(c.names))
	}
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, c.keys[i]...)
		switch c.types[i] {
		case "number":
			if f == "" {
				dst = append(dst, "null"...)
			} else if !isJSONNumber(f) {
				return dst, fmt.Errorf("column %q: %q is not a number", c.names[i], f)
			} else {
				dst = append(dst, f...)
			}
		case "bool":
			b, err := strconv.ParseBool(f)
			if f == "" {
				dst = append(dst, "null"...)
			} else if err != nil {
				return dst, fmt.Errorf("column %q: %q is neither true nor false", c.names[i], f)
			} else {
				dst = strconv.AppendBool(dst, b)
			}
		default:
			dst = appendJSONString(dst, f)
		}
	}
	return append(dst, '}'), nil
}
