package lang

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Limits on a pipeline file, so that a hostile one cannot take memory or stack. A large real
// pipeline is some hundred lines.
const (
	MaxFileBytes = 1 << 20
	MaxDepth     = 64
	MaxNodes     = 20_000 // after aliases are expanded
)

type nodeKind uint8

const (
	kindScalar nodeKind = iota
	kindMapping
	kindSequence
)

// String is the kind as a user calls it.
func (k nodeKind) String() string {
	switch k {
	case kindMapping:
		return "a mapping"
	case kindSequence:
		return "a list"
	default:
		return "a single value"
	}
}

type nodeStyle uint8

const (
	stylePlain nodeStyle = iota
	styleSingle
	styleDouble
	styleLiteral
	styleFolded
)

// node is one YAML node with aliases already followed. It is what the walker sees.
type node struct {
	kind  nodeKind
	style nodeStyle
	tag   string // resolved short tag, as !!str
	value string // scalars
	pos   Pos
	pairs []pair  // mappings, in file order, duplicates removed
	items []*node // sequences
	src   *File
	// guessed are keys that a misspelled one was probably meant to be: they count as there.
	guessed []string
	// params are the arguments of the template the node is copied from.
	params map[string]argument
	// unknown says that there is a key the language does not have here.
	unknown bool
}

// pair is one key with its value.
type pair struct {
	key   *node
	value *node
}

// isNull reports an absent value: "key:" or "key: null".
func (n *node) isNull() bool { return n.kind == kindScalar && n.tag == "!!null" }

// get returns the value under key, or nil.
func (n *node) get(key string) *node {
	for _, p := range n.pairs {
		if p.key.value == key {
			return p.value
		}
	}
	return nil
}

// has reports whether key is there, or probably was meant to be.
func (n *node) has(key string) bool { return n.get(key) != nil || slices.Contains(n.guessed, key) }

// nodeReader copies yaml.Nodes into nodes under the limits.
type nodeReader struct {
	src      *File
	findings *[]Finding
	count    int
	stopped  bool
	active   map[*yaml.Node]bool
}

// parse reads one YAML document. It returns nil when there is nothing to walk.
func parse(src *File, text []byte, findings *[]Finding) *node {
	if len(text) > MaxFileBytes {
		report(findings, Pos{src.name, 1, 1}, 1, CodeTooLarge,
			fmt.Sprintf("the file has %d bytes, the limit is %d", len(text), MaxFileBytes),
			"split the pipeline")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		syntaxError(src, text, err, findings)
		return nil
	}
	if doc.Kind == 0 || len(doc.Content) == 0 {
		report(findings, Pos{src.name, 1, 1}, 1, CodeEmpty, "the file has no pipeline in it",
			"start with  pipeline: name")
		return nil
	}
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		syntaxError(src, text, err, findings)
		return nil
	default:
		report(findings, Pos{src.name, max(next.Line, 1), max(next.Column, 1)}, 1, CodeDocuments,
			"a second YAML document starts here; one file holds one pipeline",
			"move it to a file of its own")
	}
	r := &nodeReader{src: src, findings: findings, active: map[*yaml.Node]bool{}}
	root := r.read(doc.Content[0], 1)
	if r.stopped {
		return nil
	}
	return root
}

func (r *nodeReader) stop(at *yaml.Node, what string) *node {
	if !r.stopped {
		r.stopped = true
		report(r.findings, Pos{r.src.name, at.Line, at.Column}, 1, CodeTooLarge, what, "")
	}
	return nil
}

func (r *nodeReader) read(n *yaml.Node, depth int) *node {
	if r.count++; r.count > MaxNodes {
		return r.stop(n, fmt.Sprintf("more than %d values after aliases are expanded", MaxNodes))
	}
	if depth > MaxDepth {
		return r.stop(n, fmt.Sprintf("nested deeper than %d levels", MaxDepth))
	}
	if n.Kind == yaml.AliasNode {
		if r.active[n.Alias] {
			return r.stop(n, fmt.Sprintf("alias *%s contains itself", n.Value))
		}
		r.active[n.Alias] = true
		defer delete(r.active, n.Alias)
		return r.read(n.Alias, depth)
	}
	out := &node{
		tag: n.ShortTag(), value: n.Value, src: r.src, style: styleOf(n),
		pos: Pos{r.src.name, n.Line, n.Column},
	}
	switch n.Kind {
	case yaml.MappingNode:
		out.kind = kindMapping
		if n.Anchor != "" {
			r.active[n] = true
			defer delete(r.active, n)
		}
		r.readPairs(n, out, depth)
	case yaml.SequenceNode:
		out.kind = kindSequence
		if n.Anchor != "" {
			r.active[n] = true
			defer delete(r.active, n)
		}
		for _, c := range n.Content {
			if item := r.read(c, depth+1); item != nil {
				out.items = append(out.items, item)
			}
			if r.stopped {
				return nil
			}
		}
	}
	return out
}

func (r *nodeReader) readPairs(n *yaml.Node, out *node, depth int) {
	first := map[string]Pos{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := r.read(n.Content[i], depth+1), r.read(n.Content[i+1], depth+1)
		if r.stopped || key == nil || value == nil {
			return
		}
		if key.kind != kindScalar {
			report(r.findings, key.pos, 1, CodeWrongKind, "a key must be a single value", "")
			continue
		}
		if key.tag == "!!merge" {
			report(r.findings, key.pos, 2, CodeMergeKey, "YAML merge keys (<<) are not read here",
				"write the keys out; an alias for a whole value is fine")
			continue
		}
		if at, dup := first[key.value]; dup {
			report(r.findings, key.pos, width(key.value), CodeDuplicateKey,
				fmt.Sprintf("key %q is here twice", key.value),
				fmt.Sprintf("the first one is at line %d", at.Line))
			continue
		}
		first[key.value] = key.pos
		out.pairs = append(out.pairs, pair{key, value})
	}
}

func styleOf(n *yaml.Node) nodeStyle {
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		return styleLiteral
	case n.Style&yaml.FoldedStyle != 0:
		return styleFolded
	case n.Style&yaml.SingleQuotedStyle != 0:
		return styleSingle
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return styleDouble
	default:
		return stylePlain
	}
}

func report(list *[]Finding, pos Pos, width int, code Code, message, hint string) {
	severity := Error
	switch code[0] {
	case 'W':
		severity = Warning
	case 'I':
		severity = Info
	}
	*list = append(*list, Finding{
		File: pos.File, Line: pos.Line, Col: pos.Col, Width: max(width, 1),
		Code: code, Severity: severity, Message: message, Hint: hint,
	})
}
