package lang

import (
	"fmt"
	"strings"
)

// shareable are the keys that an included file may have, beside version:.
var shareable = []string{"vars", "plugins", "schemas", "templates"}

// includes puts what the files named by include: have into root. What root has itself wins.
func (d *decoder) includes(root *node) {
	list := root.get("include")
	if list == nil {
		return
	}
	items := list.items
	if list.kind == kindScalar {
		items = []*node{list}
	}
	// from says which included file gave a name, by key and name.
	from := map[string]*node{}
	for _, at := range items {
		if at.kind != kindScalar || at.isNull() {
			continue // said when the tree is walked
		}
		if shared := d.included(at); shared != nil {
			d.share(root, shared, at, from)
		}
	}
}

// included reads one file.
func (d *decoder) included(at *node) *node {
	if d.refs.opts.Include == nil {
		d.reportAt(at, CodeReference, "a file cannot be included here", "")
		return nil
	}
	text, err := d.refs.opts.Include(at.value)
	if err != nil {
		d.reportAt(at, CodeReference, fmt.Sprintf("the file %s cannot be included: %v", at.value, err),
			"paths are relative to the pipeline's folder, and stay below it")
		return nil
	}
	shared := parse(newSource(at.value, text), text, d.findings)
	if shared == nil {
		return nil
	}
	if shared.kind != kindMapping {
		d.wrongKind(shared, "a mapping ("+strings.Join(shareable, ", ")+")")
		return nil
	}
	return shared
}

// share adds the names of an included file.
func (d *decoder) share(root, shared, file *node, from map[string]*node) {
	var rows []field
	for _, key := range shareable {
		rows = append(rows, field{key: key})
	}
	for _, p := range shared.pairs {
		switch {
		case p.key.value == "version":
			continue
		case !isShareable(p.key.value):
			d.reportNotShared(p.key, rows)
			continue
		case p.value.kind != kindMapping:
			d.wrongKind(p.value, "a mapping")
			continue
		}
		own := root.get(p.key.value)
		if own == nil {
			own = &node{kind: kindMapping, tag: "!!map", pos: p.value.pos, src: p.value.src}
			root.pairs = append(root.pairs, pair{p.key, own})
		}
		for _, x := range p.value.pairs {
			name := p.key.value + "." + x.key.value
			if other := from[name]; other != nil {
				d.reportAt(x.key, CodeDuplicateKey, fmt.Sprintf("%s is in %s, too", name, other.value),
					"give one of them another name")
			}
			if own.get(x.key.value) == nil {
				own.pairs = append(own.pairs, x)
				from[name] = file
			}
		}
	}
}

func isShareable(key string) bool {
	for _, x := range shareable {
		if x == key {
			return true
		}
	}
	return false
}

// reportNotShared refuses a key of an included file.
func (d *decoder) reportNotShared(key *node, rows []field) {
	if _, known := d.owners[key.value]; known {
		d.reportAt(key, CodeMisplacedKey, fmt.Sprintf("an included file has no key %q", key.value),
			"it may have "+strings.Join(shareable, ", ")+"; the rest belongs into the pipeline's file")
		return
	}
	d.unknownKey(key, "an included file", rows)
}
