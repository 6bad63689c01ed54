package lang

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	goccy "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
	"go.yaml.in/yaml/v4"
)

// syntaxError reports err at the best position known: the second parser has exact columns for
// most mistakes, the first one has a mark for all of them.
func syntaxError(src *File, text []byte, err error, findings *[]Finding) {
	pos, message := Pos{src.name, 1, 1}, err.Error()
	if load, ok := errors.AsType[*yaml.LoadError](err); ok {
		message = load.Message
		if load.Mark.Line > 0 {
			pos = Pos{src.name, load.Mark.Line, max(load.Mark.Column, 1)}
		}
	}
	if at, text, ok := secondOpinion(text); ok {
		pos, message = Pos{src.name, at.line, at.col}, text
	}
	pos.Line = min(pos.Line, len(src.lines))
	message, hint := syntaxAdvice(src.lines, pos, strings.TrimPrefix(message, "yaml: "))
	report(findings, pos, 1, CodeSyntax, message, hint)
}

// opinionDepth is how deep a text may be nested for goccy/go-yaml to look at it: the memory that it
// needs grows with the square of that, to gigabytes for a file of 50 KB.
const opinionDepth = 10 * MaxDepth

// nesting returns how many brackets and list dashes of text enclose each other, or more: quotes and
// comments are not looked at.
func nesting(text []byte) int {
	brackets, dashes, deepest := 0, 0, 0
	inHead := true // nothing but dashes and spaces since the line began
	for _, c := range text {
		switch c {
		case '\n':
			dashes, inHead = 0, true
			continue
		case ' ':
			continue
		case '-', '?':
			if inHead {
				dashes++
			}
		case '[', '{':
			brackets++
			inHead = false
		case ']', '}':
			brackets = max(brackets-1, 0)
			inHead = false
		default:
			inHead = false
		}
		deepest = max(deepest, brackets+dashes)
	}
	return deepest
}

// secondOpinion asks goccy/go-yaml where the mistake is. Its parser has panicked on hostile
// input in the past, hence the recover.
func secondOpinion(text []byte) (at place, message string, ok bool) {
	if nesting(text) > opinionDepth {
		return place{}, "", false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	_, err := parser.ParseBytes(text, 0)
	syntax, isSyntax := errors.AsType[*goccy.SyntaxError](err)
	if !isSyntax || syntax.Token == nil || syntax.Token.Position == nil {
		return place{}, "", false
	}
	p := syntax.Token.Position
	return place{max(p.Line, 1), max(p.Column, 1)}, syntax.Message, true
}

// syntaxAdvice says in words of the file, not of a parser's grammar, what the mistakes are that
// people make most, and what to do about them. Other messages stay as they are.
func syntaxAdvice(lines []string, pos Pos, message string) (said, hint string) {
	line := lines[max(pos.Line, 1)-1]
	switch {
	case strings.Contains(message, "'\t' that cannot start any token"),
		strings.Contains(message, "'\\t' that cannot start any token"):
		return "a tab cannot indent a line", "use spaces"
	case strings.HasSuffix(message, "that cannot start any token"):
		return message, "put the text in quotes"
	case strings.Contains(message, "single-quoted text"):
		return "text in ' quotes does not end", oddQuote(lines, '\'')
	case strings.Contains(message, "double-quoted text"):
		return `text in " quotes does not end`, oddQuote(lines, '"')
	case message == "value is not allowed in this context" && pos.Col-1 == indentOf(line):
		said = "the indentation of this line fits no line above it"
		if col, of := nearestBlock(lines, pos); of > 0 {
			hint = fmt.Sprintf("begin it in column %d, as line %d does", col, of)
		}
		return said, hint
	case message == "non-map value is specified", message == "unexpected key name":
		return "this is no  key: value", "a colon with a space behind it is missing"
	case strings.Contains(message, "',' or"):
		above := lines[:pos.Line]
		hint = cmp.Or(oddQuote(above, '\''), oddQuote(above, '"'),
			"close the bracket; text with , : # or brackets in it needs quotes")
		return message, hint
	}
	return message, ""
}

// indentOf counts the spaces a line begins with.
func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// oddQuote finds the first line with a quote that has no partner.
func oddQuote(lines []string, quote rune) string {
	for i, line := range lines {
		text, _, _ := strings.Cut(" "+line, " #")
		if strings.Count(text, string(quote))%2 == 1 {
			return fmt.Sprintf("line %d has a %c without a partner", i+1, quote)
		}
	}
	return ""
}

// nearestBlock gives the column, and a line that begins in it, of the block still open above pos
// that is nearest to its column; the deeper one of two.
func nearestBlock(lines []string, pos Pos) (col, line int) {
	open := len(lines[pos.Line-1]) + 1 // blocks that begin left of this are open
	best := open
	for i := pos.Line - 2; i >= 0 && open > 0; i-- {
		text := strings.TrimSpace(lines[i])
		indent := indentOf(lines[i])
		if text == "" || strings.HasPrefix(text, "#") || indent >= open {
			continue
		}
		open = indent
		if off := max(indent+1-pos.Col, pos.Col-indent-1); off < best {
			best, col, line = off, indent+1, i+1
		}
	}
	return col, line
}
