package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
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
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.Title
	}
	cells := make([][]string, len(rows))
	for i, row := range rows {
		for _, c := range columns {
			cells[i] = append(cells[i], c.Cell(row))
		}
	}
	return p.Grid(p.Out, titles, cells)
}

// Grid writes aligned columns to w, under their titles unless headers are left out.
func (p *Printer) Grid(w io.Writer, titles []string, rows [][]string) error {
	columns := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if !p.NoHeaders {
		fmt.Fprintln(columns, strings.Join(titles, "\t"))
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	return columns.Flush()
}

// Done tells what a command did: a note for people, the object itself in a machine format.
func (p *Printer) Done(object any, note string, args ...any) error {
	if p.Machine() {
		return One(p, object, nil)
	}
	p.Note(note, args...)
	return nil
}

// printable keeps control characters of user data (names, keys) from moving the terminal's cursor.
func printable(s string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
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
