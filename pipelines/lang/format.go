package lang

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Format rewrites a pipeline file in the one form `pipeline fmt` gives: keys in the order of the
// language's tables, two spaces of indentation, a blank line between sections and, where there
// was one, between steps. Comments, quotes and the choice of block or flow stay. The result reads
// as the same tree. A file that is no YAML or is above the limits is not formatted: findings say
// why.
func Format(name string, text []byte) ([]byte, []Finding) {
	src := newSource(name, text)
	var findings []Finding
	if parse(src, text, &findings) == nil || HasErrors(findings) {
		return nil, SortFindings(findings)
	}
	var doc yaml.Node
	if err := yaml.Load(text, &doc); err != nil {
		report(&findings, Pos{name, 1, 1}, 1, CodeSyntax, err.Error(), "")
		return nil, findings
	}
	root := doc.Content[0]
	blank := blankBefore(src, root)
	t := reflect.TypeFor[Pipeline]()
	if isShort(root) {
		t = reflect.TypeFor[shorthand]()
	}
	order(root, t)
	out, err := yaml.Dump(&doc, yaml.WithIndent(2), yaml.WithLineWidth(-1),
		yaml.WithCompactSeqIndent(false))
	if err != nil {
		report(&findings, Pos{name, 1, 1}, 1, CodeSyntax,
			fmt.Sprintf("cannot be written again: %v", err), "")
		return nil, findings
	}
	return spaced(out, blank), nil
}

func isShort(root *yaml.Node) bool {
	has := func(key string) bool {
		for i := 0; i+1 < len(root.Content); i += 2 {
			if root.Content[i].Value == key {
				return true
			}
		}
		return false
	}
	return (has("from") || has("to")) && !has("steps") && !has("sources")
}

// order sorts the keys of every mapping that is an object of the language. Keys that are not in
// the table come last, in their order.
func order(n *yaml.Node, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	switch {
	case strings.HasPrefix(t.Name(), "List["):
		for _, item := range n.Content {
			order(item, t.Field(0).Type.Elem())
		}
		return
	case strings.HasPrefix(t.Name(), "Map["):
		value, _ := t.Field(0).Type.Elem().FieldByName("Value")
		for i := 1; i < len(n.Content); i += 2 {
			order(n.Content[i], value.Type)
		}
		return
	case n.Kind != yaml.MappingNode:
		return
	}
	fields := fieldsOf(t)
	if len(fields) == 0 {
		return
	}
	rank := func(key string) int {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			return len(fields)
		}
		return i
	}
	pairs := make([][2]*yaml.Node, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		pairs = append(pairs, [2]*yaml.Node{n.Content[i], n.Content[i+1]})
		if r := rank(n.Content[i].Value); r < len(fields) {
			order(n.Content[i+1], fields[r].typ)
		}
	}
	slices.SortStableFunc(pairs, func(a, b [2]*yaml.Node) int {
		return rank(a[0].Value) - rank(b[0].Value)
	})
	n.Content = n.Content[:0]
	for _, p := range pairs {
		n.Content = append(n.Content, p[0], p[1])
	}
}

// blankBefore notes the steps that had an empty line above them or above their comment, by their
// index.
func blankBefore(src *File, root *yaml.Node) map[int]bool {
	out := map[int]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "steps" || root.Content[i+1].Style&yaml.FlowStyle != 0 {
			continue
		}
		for j, step := range root.Content[i+1].Content {
			line := step.Line - 1
			for strings.HasPrefix(strings.TrimSpace(src.Line(line)), "#") {
				line--
			}
			out[j] = j > 0 && strings.TrimSpace(src.Line(line)) == ""
		}
	}
	return out
}

// spaced puts empty lines between sections that have more than one line, and before the steps of
// blank. A comment stays with what is below it.
func spaced(out []byte, blank map[int]bool) []byte {
	var b bytes.Buffer
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	literal := literalLines(lines)
	step, inSteps, longBefore := -1, false, false
	pending := []string{} // comment lines waiting for what they belong to
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" && !literal[i] {
			continue
		}
		if strings.HasPrefix(trimmed, "#") && !literal[i] {
			pending = append(pending, line)
			continue
		}
		gap := false
		switch {
		case literal[i]:
		case line[0] != ' ' && line[0] != '-':
			long := i+1 < len(lines) && strings.HasPrefix(lines[i+1], " ")
			gap = b.Len() > 0 && (long || longBefore || len(pending) > 0)
			longBefore, inSteps, step = long, strings.HasPrefix(line, "steps:"), -1
		case inSteps && strings.HasPrefix(line, "  - "):
			step++
			gap = blank[step]
		}
		if gap {
			b.WriteByte('\n')
		}
		for _, c := range append(pending, line) {
			b.WriteString(c + "\n")
		}
		pending = pending[:0]
	}
	for _, c := range pending {
		b.WriteString(c + "\n")
	}
	return b.Bytes()
}

// literalLines marks the lines inside block scalars, which must stay as they are.
func literalLines(lines []string) map[int]bool {
	out := map[int]bool{}
	indentOf := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	for i := 0; i < len(lines); i++ {
		head, _, _ := strings.Cut(lines[i], " #")
		head = strings.TrimRight(head, " ")
		last := head[strings.LastIndexByte(head, ' ')+1:]
		if last == "" || !strings.HasPrefix(last, "|") && !strings.HasPrefix(last, ">") ||
			strings.Trim(last, "|>+-0123456789") != "" {
			continue
		}
		base := indentOf(lines[i])
		for i+1 < len(lines) && (strings.TrimSpace(lines[i+1]) == "" ||
			indentOf(lines[i+1]) > base) {
			i++
			out[i] = true
		}
	}
	return out
}
