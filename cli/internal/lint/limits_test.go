package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"testing"
	"unicode/utf8"
)

// The limits of size. There is no list of exceptions: what grows past them is cut.
const (
	maxFileLines     = 500
	maxFunctionLines = 70
	maxColumns       = 100 // not counting the indentation
)

func TestFilesAndLinesAreShort(t *testing.T) {
	var files, lines []string
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		rows := bytes.Split(s.text, []byte("\n"))
		if len(rows) > maxFileLines+1 {
			files = append(files, fmt.Sprintf("%s: %d lines", s.path, len(rows)-1))
		}
		for i, row := range rows {
			if w := utf8.RuneCount(bytes.TrimLeft(row, "\t")); w > maxColumns {
				lines = append(lines, fmt.Sprintf("%s:%d: %d columns", s.path, i+1, w))
			}
		}
	}
	report(t, fmt.Sprintf("files of at most %d lines", maxFileLines), files)
	report(t, fmt.Sprintf("lines of at most %d columns", maxColumns), lines)
}

func TestFunctionsAreShort(t *testing.T) {
	var findings []string
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			start, end := fset.Position(f.Pos()).Line, fset.Position(f.End()).Line
			if n := end - start + 1; n > maxFunctionLines {
				findings = append(findings,
					fmt.Sprintf("%s:%d: %s has %d lines", s.path, start, f.Name.Name, n))
			}
		}
	}
	report(t, fmt.Sprintf("functions of at most %d lines", maxFunctionLines), findings)
}
