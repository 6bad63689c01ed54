package check

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/millstream-io/millstream/pipelines/lang"
)

// Render writes findings for a terminal: one block each, with the line of the file and a caret
// under what is meant. file may be nil.
func Render(findings []lang.Finding, file *lang.File) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s:%d:%d: %s[%s]: %s\n", f.File, f.Line, f.Col, f.Severity, f.Code,
			f.Message)
		line := ""
		if file != nil && file.Name() == f.File {
			line = file.Line(f.Line)
		}
		if line == "" {
			if f.Hint != "" {
				fmt.Fprintf(&b, "    hint: %s\n", f.Hint)
			}
			continue
		}
		number := fmt.Sprintf("%3d", f.Line)
		fmt.Fprintf(&b, "%s | %s\n", number, strings.ReplaceAll(line, "\t", " "))
		left := max(min(f.Col-1, utf8.RuneCountInString(line)), 0)
		room := max(utf8.RuneCountInString(line)-left, 1)
		fmt.Fprintf(&b, "%s | %s%s", strings.Repeat(" ", len(number)), strings.Repeat(" ", left),
			strings.Repeat("^", max(1, min(f.Width, room))))
		if f.Hint != "" {
			b.WriteString("  hint: " + f.Hint)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Summary is the last line of a lint: how many findings there are, and of which kind.
func Summary(findings []lang.Finding) string {
	counts := map[lang.Severity]int{}
	for _, f := range findings {
		counts[f.Severity]++
	}
	var parts []string
	for _, s := range []lang.Severity{lang.Error, lang.Warning, lang.Info} {
		if n := counts[s]; n == 1 || n > 1 && s == lang.Info {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %ss", n, s))
		}
	}
	if len(parts) == 0 {
		return "no findings"
	}
	return strings.Join(parts, ", ")
}
