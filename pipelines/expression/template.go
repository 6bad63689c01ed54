package expression

import (
	"fmt"
	"strings"
)

// Template is text with expressions in it.
type Template struct {
	parts []templatePart
}

type templatePart struct {
	text    string
	program *Program
}

// AddText appends literal text.
func (t *Template) AddText(s string) { t.parts = append(t.parts, templatePart{text: s}) }

// AddProgram appends the result of an expression.
func (t *Template) AddProgram(p *Program) { t.parts = append(t.parts, templatePart{program: p}) }

// Append appends the text made of the Env's record: strings as they are, other values as JSON.
func (t *Template) Append(dst []byte, e *Env) ([]byte, error) {
	for _, p := range t.parts {
		if p.program == nil {
			dst = append(dst, p.text...)
			continue
		}
		text, null, err := p.program.AppendKey(dst, e)
		if err != nil {
			return dst, err
		}
		if dst = text; null {
			dst = append(dst, "null"...)
		}
	}
	return dst, nil
}

// Each calls fn for every program in the template.
func (t *Template) Each(fn func(*Program)) {
	for _, p := range t.parts {
		if p.program != nil {
			fn(p.program)
		}
	}
}

// Source is the template as a file has it.
func (t *Template) Source() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.program == nil {
			b.WriteString(p.text)
		} else {
			fmt.Fprintf(&b, "{{ %s }}", strings.TrimSpace(p.program.Source()))
		}
	}
	return b.String()
}

// Signature is a text that is equal for templates that do the same.
func (t *Template) Signature() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.program == nil {
			fmt.Fprintf(&b, "%q;", p.text)
		} else {
			fmt.Fprintf(&b, "{%s};", p.program.Signature())
		}
	}
	return b.String()
}
