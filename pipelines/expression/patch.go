package expression

import (
	"fmt"
	"strings"
)

// Patch sets and removes fields of a JSON object and leaves all other bytes as they are, in their
// order.
type Patch struct {
	root patchNode
	sets int
}

// patchNode is one object on the way to a patched field.
type patchNode struct {
	key   string
	kids  []*patchNode
	value *Projection // to set
	unset bool
}

// Set adds a field to set, by its dotted path. Nothing may be set below another set path.
func (p *Patch) Set(path string, value *Projection) error {
	n, err := p.root.reach(path)
	if err != nil {
		return err
	}
	if len(n.kids) > 0 || n.value != nil || n.unset {
		return fmt.Errorf("%q is set twice", path)
	}
	n.value = value
	p.sets++
	return nil
}

// Unset adds a field to remove, by its dotted path.
func (p *Patch) Unset(path string) error {
	n, err := p.root.reach(path)
	if err != nil {
		return err
	}
	if len(n.kids) > 0 || n.value != nil || n.unset {
		return fmt.Errorf("%q is named twice", path)
	}
	n.unset = true
	return nil
}

func (n *patchNode) reach(path string) (*patchNode, error) {
	at := n
	for key := range strings.SplitSeq(path, ".") {
		if at.value != nil || at.unset {
			return nil, fmt.Errorf("%q is inside a field that is itself named", path)
		}
		next := at.kid([]byte(key))
		if next == nil {
			next = &patchNode{key: key}
			at.kids = append(at.kids, next)
		}
		at = next
	}
	return at, nil
}

func (n *patchNode) kid(key []byte) *patchNode {
	for _, k := range n.kids {
		if k.key == string(key) {
			return k
		}
	}
	return nil
}

// Append appends the patched value of the Env's record. New fields come last, in the order of
// Set. All expressions see the value as it was. A null value can only be unset.
func (p *Patch) Append(dst []byte, e *Env) ([]byte, error) {
	d := e.document(0)
	if err := d.complete("value"); err != nil {
		return dst, err
	}
	if d.data == nil || !isObject(d.data) {
		if p.sets == 0 {
			return append(dst, d.data...), nil
		}
		return dst, &EvalError{Source: "set", Message: "only an object has fields to set"}
	}
	return p.root.apply(dst, d.data, e)
}

func isObject(data []byte) bool {
	s := scanner{data: data}
	s.space()
	return s.pos < len(data) && data[s.pos] == '{'
}

// apply writes the object in data, which is valid JSON, with the changes below n.
func (n *patchNode) apply(dst, data []byte, e *Env) ([]byte, error) {
	s := scanner{data: data}
	s.space()
	s.pos++ // '{'
	dst = append(dst, '{')
	first, seen := true, make([]bool, len(n.kids))
	var err error
	for {
		s.space()
		if s.data[s.pos] == '}' {
			break
		}
		if s.data[s.pos] == ',' {
			s.pos++
			continue
		}
		name, kid := n.member(&s, seen)
		start := s.pos
		if err := s.value(nil); err != nil {
			return dst, err
		}
		value := data[start:s.pos]
		if kid != nil && kid.unset {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(dst, name...), ':')
		if dst, err = kid.change(dst, value, e); err != nil {
			return dst, err
		}
	}
	for i, kid := range n.kids {
		if seen[i] || !kid.sets() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendString(dst, kid.key), ':')
		if dst, err = kid.change(dst, nil, e); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// member reads a name and its colon; kid is the change to its value, or nil.
func (n *patchNode) member(s *scanner, seen []bool) (name []byte, kid *patchNode) {
	start := s.pos
	escaped, _ := s.str() // the text is known to be valid
	name = s.data[start:s.pos]
	key := name[1 : len(name)-1]
	if escaped {
		key = unescape(nil, key)
	}
	for i, k := range n.kids {
		if k.key == string(key) {
			seen[i], kid = true, k
		}
	}
	s.space()
	s.pos++ // ':'
	s.space()
	return name, kid
}

// change writes the new form of a member's value; value is nil when the member is new.
func (n *patchNode) change(dst, value []byte, e *Env) ([]byte, error) {
	switch {
	case n == nil:
		return append(dst, value...), nil
	case n.value != nil:
		return n.value.AppendJSON(dst, e)
	case value == nil || string(value) == "null" && n.sets():
		return n.apply(dst, []byte("{}"), e)
	case isObject(value):
		return n.apply(dst, value, e)
	case !n.sets():
		return append(dst, value...), nil
	}
	return dst, &EvalError{Source: "set " + n.key, Message: n.key + " is not an object"}
}

// sets reports whether anything at or below n is set.
func (n *patchNode) sets() bool {
	if n.value != nil {
		return true
	}
	for _, k := range n.kids {
		if k.sets() {
			return true
		}
	}
	return false
}

// Each calls fn for every program in the patch.
func (p *Patch) Each(fn func(*Program)) { p.root.each(fn) }

func (n *patchNode) each(fn func(*Program)) {
	if n.value != nil {
		n.value.Each(fn)
	}
	for _, k := range n.kids {
		k.each(fn)
	}
}

// Signature is a text that is equal for patches that do the same.
func (p *Patch) Signature() string { return p.root.signature() }

func (n *patchNode) signature() string {
	var b strings.Builder
	for _, k := range n.kids {
		switch {
		case k.unset:
			fmt.Fprintf(&b, "-%q;", k.key)
		case k.value != nil:
			fmt.Fprintf(&b, "%q=%s;", k.key, k.value.Signature())
		default:
			fmt.Fprintf(&b, "%q{%s};", k.key, k.signature())
		}
	}
	return b.String()
}
