package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// Column is one column of a table: its title and how a row's cell is made.
type Column[T any] struct {
	Title string
	Cell  func(T) string
}

// List prints rows in the printer's format: a table with the given columns, or the rows themselves
// as a JSON array, as one JSON object a line, or as YAML.
func List[T any](p *Printer, rows []T, columns []Column[T]) error {
	switch p.Format {
	case Table:
		return table(p, rows, columns)
	case NDJSON:
		for _, row := range rows {
			if err := writeJSON(p, row, ""); err != nil {
				return err
			}
		}
		return nil
	case YAML:
		return writeYAML(p.Out, nonNil(rows))
	default:
		return writeJSON(p, nonNil(rows), "  ")
	}
}

// One prints a single object: text written by people, or the object itself in a machine format.
func One(p *Printer, object any, text func(*strings.Builder)) error {
	switch p.Format {
	case Table:
		var b strings.Builder
		text(&b)
		_, err := fmt.Fprint(p.Out, b.String())
		return err
	case NDJSON:
		return writeJSON(p, object, "")
	case YAML:
		return writeYAML(p.Out, object)
	default:
		return writeJSON(p, object, "  ")
	}
}

// Verdict is what lint, plan, verify and doctor print for machines.
type Verdict struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Summary string `json:"summary"`
	Result  any    `json:"result,omitempty"`
	Error   *Error `json:"error,omitempty"`
}

func nonNil[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}

func table[T any](p *Printer, rows []T, columns []Column[T]) error {
	w := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	if !p.NoHeaders {
		titles := make([]string, len(columns))
		for i, c := range columns {
			titles[i] = c.Title
		}
		fmt.Fprintln(w, strings.Join(titles, "\t"))
	}
	cells := make([]string, len(columns))
	for _, row := range rows {
		for i, c := range columns {
			cells[i] = printable(c.Cell(row))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// printable keeps control characters of user data (names, keys) from moving the terminal's cursor.
func printable(s string) string {
	clean := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, s)
	if clean == "" {
		return "-"
	}
	return clean
}

func writeJSON(p *Printer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err := p.Out.Write(b.Bytes())
	return err
}
