package output

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// Format is the shape data takes on standard output.
type Format string

// The formats every data command knows.
const (
	Table  Format = "table"
	JSON   Format = "json"
	NDJSON Format = "ndjson"
	YAML   Format = "yaml"
)

// Formats lists the formats in the order help shows them.
func Formats() []Format { return []Format{Table, JSON, NDJSON, YAML} }

// ParseFormat checks the value of the flag -o.
func ParseFormat(s string) (Format, error) {
	if f := Format(s); slices.Contains(Formats(), f) {
		return f, nil
	}
	names := make([]string, 0, len(Formats()))
	for _, f := range Formats() {
		names = append(names, string(f))
	}
	return "", Usage("BAD_FORMAT", fmt.Sprintf("unknown output format %q", s)).
		WithDo("use -o " + strings.Join(names, "|"))
}

// Printer writes a command's data and notes. The zero value is not usable; see [NewPrinter].
type Printer struct {
	// Out receives data, Err everything else.
	Out, Err io.Writer
	// Format of the data on Out.
	Format Format
	// NoHeaders leaves out the first line of tables.
	NoHeaders bool
	// Quiet leaves out notes; errors still appear.
	Quiet bool
}

// NewPrinter returns a table printer on the given writers.
func NewPrinter(out, errOut io.Writer) *Printer {
	return &Printer{Out: out, Err: errOut, Format: Table}
}

// Note prints one line for people on standard error, unless quiet.
func (p *Printer) Note(format string, args ...any) {
	if !p.Quiet {
		fmt.Fprintf(p.Err, format+"\n", args...)
	}
}

// Machine tells whether the data is for a program rather than a person.
func (p *Printer) Machine() bool { return p.Format != Table }

// IsTerminal tells whether w is a terminal, which decides on colour, bars and prompts.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Fit cuts a line to the width of the terminal w, with … where it was cut. Elsewhere than on a
// terminal lines stay whole.
func Fit(w any, line string) string {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(w) {
		return line
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if runes := []rune(line); err == nil && width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}
