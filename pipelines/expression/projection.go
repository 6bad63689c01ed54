package expression

import (
	"fmt"
	"strings"
)

// Projection makes a value: one expression, or fields in a fixed order.
type Projection struct {
	whole  *Program
	fields []projectedField
}

type projectedField struct {
	name   string
	prefix []byte // the name as JSON, with its colon
	value  *Projection
}

func newProjectedField(name string, value *Projection) projectedField {
	return projectedField{name, append(appendString(nil, name), ':'), value}
}

// Whole is a projection of one expression.
func Whole(p *Program) *Projection { return &Projection{whole: p} }

// Object is an empty object projection; Add puts fields into it.
func Object() *Projection { return &Projection{fields: []projectedField{}} }

// Add appends a field. It returns p.
func (p *Projection) Add(name string, value *Projection) *Projection {
	p.fields = append(p.fields, newProjectedField(name, value))
	return p
}

// Type is what is known of the value made.
func (p *Projection) Type() *Type {
	if p.whole != nil {
		return p.whole.Type
	}
	t := &Type{Kind: KindObject}
	for _, f := range p.fields {
		t.Fields = append(t.Fields, Field{f.name, f.value.Type()})
	}
	return t
}

// Each calls fn for every program in the projection.
func (p *Projection) Each(fn func(*Program)) {
	if p.whole != nil {
		fn(p.whole)
	}
	for _, f := range p.fields {
		f.value.Each(fn)
	}
}

// AppendJSON appends the value made of the Env's record.
func (p *Projection) AppendJSON(dst []byte, e *Env) ([]byte, error) {
	if p.whole != nil {
		return p.whole.AppendJSON(dst, e)
	}
	return appendFields(dst, p.fields, e)
}

// Whole is the program of a projection that is one expression, nil otherwise.
func (p *Projection) Whole() *Program { return p.whole }

func appendFields(dst []byte, fields []projectedField, e *Env) ([]byte, error) {
	start := len(dst)
	dst = append(dst, '{')
	for i := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, fields[i].prefix...)
		var err error
		if dst, err = fields[i].value.AppendJSON(dst, e); err != nil {
			return dst[:start], err
		}
	}
	return append(dst, '}'), nil
}

// Signature is a text that is equal for projections that do the same.
func (p *Projection) Signature() string {
	if p.whole != nil {
		return p.whole.Signature()
	}
	var b strings.Builder
	b.WriteByte('{')
	for _, f := range p.fields {
		fmt.Fprintf(&b, "%q:%s;", f.name, f.value.Signature())
	}
	return b.String() + "}"
}
