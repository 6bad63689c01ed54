package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// encoder writes records in the format of the file.
type encoder interface {
	// record appends r to dst. With an error dst is as it was.
	record(dst []byte, r *sdk.Record) ([]byte, error)
	// names are the columns written so far, for the journal.
	names() []string
}

// ndjson writes the value, one JSON value a line.
type ndjson struct{}

func (ndjson) names() []string { return nil }

func (ndjson) record(dst []byte, r *sdk.Record) ([]byte, error) {
	v := r.Value()
	if v == nil {
		return append(dst, "null\n"...), nil
	}
	if !json.Valid(v) || !utf8.Valid(v) {
		return dst, errors.New("the value is not JSON")
	}
	if bytes.IndexByte(v, '\n') < 0 && bytes.IndexByte(v, '\r') < 0 {
		return append(append(dst, v...), '\n'), nil
	}
	b := bytes.NewBuffer(dst) // line ends in JSON are only white space
	if err := json.Compact(b, v); err != nil {
		return dst, err
	}
	return append(b.Bytes(), '\n'), nil
}

// csv writes the members of the value, a JSON object, in columns.
type csv struct {
	columns []string // nil until the first record gives them
	written []string // as in the file's header; nil = no header yet
}

func (c *csv) names() []string { return c.written }

func (c *csv) record(dst []byte, r *sdk.Record) ([]byte, error) {
	names, values, err := members(r.Value())
	if err != nil {
		return dst, err
	}
	columns := c.written
	if columns == nil {
		columns = c.columns
	}
	if columns == nil {
		columns = names
	}
	if len(columns) == 0 {
		return dst, errors.New("the value has no members to make columns of")
	}
	for i, name := range names {
		if !slices.Contains(columns, name) {
			return dst, fmt.Errorf("no column for member %q (%s); the columns are: %s",
				name, values[i], strings.Join(columns, ", "))
		}
	}
	if c.written == nil {
		dst = appendCSV(dst, columns)
		c.written = columns
	}
	row := make([]string, len(columns))
	for i, name := range names {
		row[slices.Index(columns, name)] = values[i]
	}
	return appendCSV(dst, row), nil
}

// members reads a JSON object into names and values: strings as they are, null as nothing, all
// else as JSON.
func members(value []byte) (names, values []string, err error) {
	d := json.NewDecoder(bytes.NewReader(value))
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return nil, nil, errors.New("the value is not a JSON object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("the value is not JSON: %w", err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, nil, fmt.Errorf("the value is not JSON: %w", err)
		}
		text := string(raw)
		switch {
		case text == "null":
			text = ""
		case raw[0] == '"':
			if err := json.Unmarshal(raw, &text); err != nil {
				return nil, nil, err
			}
		}
		names, values = append(names, key.(string)), append(values, text)
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, nil, errors.New("the value is not a JSON object")
	}
	return names, values, nil
}

// appendCSV appends one row (RFC 4180, but with LF).
func appendCSV(dst []byte, row []string) []byte {
	for i, f := range row {
		if i > 0 {
			dst = append(dst, ',')
		}
		if f == "" && len(row) == 1 || strings.ContainsAny(f, "\",\r\n") ||
			f != "" && (f[0] == ' ' || f[len(f)-1] == ' ') {
			dst = append(dst, '"')
			dst = append(dst, strings.ReplaceAll(f, `"`, `""`)...)
			dst = append(dst, '"')
			continue
		}
		dst = append(dst, f...)
	}
	return append(dst, '\n')
}
