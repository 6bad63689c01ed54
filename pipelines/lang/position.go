package lang

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Pos is a place in a pipeline file. Line and Col are 1-based; Col counts characters.
type Pos struct {
	File string
	Line int
	Col  int
}

// String is file:line:col.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// IsSet reports whether the place is known.
func (p Pos) IsSet() bool { return p.Line > 0 }

// File is the text of one file, kept to show lines and to map positions.
type File struct {
	name  string
	lines []string
}

// lineBreaks makes every line break the YAML parser counts (YAML 1.1 §5.4) the same one.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n",
	"\u2029", "\n")

func newSource(name string, text []byte) *File {
	s := strings.TrimPrefix(string(text), "\ufeff")
	s = lineBreaks.Replace(s)
	return &File{name: name, lines: strings.Split(s, "\n")}
}

// Name is the file name as given to Load.
func (s *File) Name() string { return s.name }

// Line returns line n (1-based) without its line end, or "" when there is no such line.
func (s *File) Line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// place is a position without the file name, as used while mapping.
type place struct{ line, col int }

// scalarPlaces returns the place in the file of every character of a scalar's value, plus one for
// its end. It walks the source text from the scalar's first character by the rules of YAML 1.2
// §7.3 (flow scalars) and §8.1 (block scalars). When what it reads is not the value the parser
// reported, every character maps to the start of the scalar.
func (s *File) scalarPlaces(n *node) []place {
	w := &scalarWalk{src: s, line: n.pos.Line, col: n.pos.Col}
	w.properties()
	switch n.style {
	case styleLiteral:
		w.literal(n.value)
	case styleSingle:
		w.quoted('\'')
	case styleDouble:
		w.quoted('"')
	case stylePlain:
		w.plain(utf8.RuneCountInString(n.value))
	}
	if n.style == styleFolded || string(w.text) != n.value {
		start := place{n.pos.Line, n.pos.Col}
		flat := make([]place, utf8.RuneCountInString(n.value)+1)
		for i := range flat {
			flat[i] = start
		}
		return flat
	}
	return append(w.places, place{w.line, w.col})
}

// scalarWalk reads one scalar from the source, remembering where each character came from.
type scalarWalk struct {
	src    *File
	line   int
	col    int // 1-based
	text   []rune
	places []place
}

func (w *scalarWalk) runes() []rune { return []rune(w.src.Line(w.line)) }

func (w *scalarWalk) emit(r rune, at place) {
	w.text = append(w.text, r)
	w.places = append(w.places, at)
}

// properties steps over an anchor or tag, which the parser counts as the start of a scalar. No
// plain scalar starts with & or !.
func (w *scalarWalk) properties() {
	for {
		line := w.runes()
		if w.col-1 >= len(line) || line[w.col-1] != '&' && line[w.col-1] != '!' {
			return
		}
		for w.col-1 < len(line) && line[w.col-1] != ' ' {
			w.col++
		}
		for w.col-1 < len(line) && line[w.col-1] == ' ' {
			w.col++
		}
	}
}

// literal reads the lines below a | indicator. The block's indentation is that of its first line
// which is not blank.
func (w *scalarWalk) literal(value string) {
	lines := strings.Split(value, "\n")
	w.line++
	indent := -1
	for i, want := range lines {
		if i == len(lines)-1 && want == "" {
			break // the final line break belongs to the line before
		}
		have := []rune(w.src.Line(w.line))
		wanted := []rune(want)
		if indent < 0 && len(wanted) > 0 {
			indent = len(have) - len(wanted)
		}
		base := max(indent, 0)
		for j, r := range wanted {
			w.emit(r, place{w.line, base + j + 1})
		}
		w.col = base + len(wanted) + 1
		if i < len(lines)-1 {
			w.emit('\n', place{w.line, w.col})
			w.line++
		}
	}
}

// foldBreak consumes a line break inside a flow scalar and what YAML folds it into: one break is
// a space, n > 1 breaks are n-1 line feeds. Spaces before the break are not part of the value.
func (w *scalarWalk) foldBreak(keepTrailing bool) bool {
	for !keepTrailing && len(w.text) > 0 {
		if last := w.text[len(w.text)-1]; last != ' ' && last != '\t' {
			break
		}
		w.text, w.places = w.text[:len(w.text)-1], w.places[:len(w.places)-1]
	}
	at := place{w.line, w.col}
	breaks := 0
	for w.line < len(w.src.lines) {
		w.line++
		breaks++
		trimmed := strings.TrimLeft(w.src.Line(w.line), " \t")
		w.col = utf8.RuneCountInString(w.src.Line(w.line)) - utf8.RuneCountInString(trimmed) + 1
		if trimmed != "" {
			if keepTrailing {
				breaks-- // the escaped break itself vanishes
				for range breaks {
					w.emit('\n', at)
				}
				return true
			}
			if breaks == 1 {
				w.emit(' ', at)
				return true
			}
			for range breaks - 1 {
				w.emit('\n', at)
			}
			return true
		}
	}
	return false
}

func (w *scalarWalk) plain(count int) {
	for len(w.text) < count {
		line := w.runes()
		if w.col-1 >= len(line) {
			if !w.foldBreak(false) {
				return
			}
			continue
		}
		w.emit(line[w.col-1], place{w.line, w.col})
		w.col++
	}
}

func (w *scalarWalk) quoted(quote rune) {
	w.col++ // the opening quote
	for {
		line := w.runes()
		if w.col-1 >= len(line) {
			if !w.foldBreak(false) {
				return
			}
			continue
		}
		r, at := line[w.col-1], place{w.line, w.col}
		switch {
		case r == quote && quote == '\'' && w.col < len(line) && line[w.col] == '\'':
			w.emit('\'', at)
			w.col += 2
		case r == quote:
			return
		case r == '\\' && quote == '"':
			if !w.escape(line, at) {
				return
			}
		default:
			w.emit(r, at)
			w.col++
		}
	}
}

// simpleEscapes are the one-letter escapes of YAML 1.2 §5.7.
var simpleEscapes = map[rune]rune{
	'0': 0, 'a': '\a', 'b': '\b', 't': '\t', '\t': '\t', 'n': '\n', 'v': '\v', 'f': '\f',
	'r': '\r', 'e': 0x1b, ' ': ' ', '"': '"', '/': '/', '\\': '\\', 'N': 0x85, '_': 0xa0,
	'L': 0x2028, 'P': 0x2029,
}

// escape reads one backslash escape of a double-quoted scalar.
func (w *scalarWalk) escape(line []rune, at place) bool {
	if w.col >= len(line) { // a backslash at the end of the line joins it with the next
		w.col++
		return w.foldBreak(true)
	}
	c := line[w.col]
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 {
		w.emit(simpleEscapes[c], at)
		w.col += 2
		return true
	}
	var r rune
	if w.col+1+digits > len(line) {
		return false
	}
	if _, err := fmt.Sscanf(string(line[w.col+1:w.col+1+digits]), "%x", &r); err != nil {
		return false
	}
	w.emit(r, at)
	w.col += 2 + digits
	return true
}
