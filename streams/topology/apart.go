package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
)

// foreign is a join by a foreign key: <id>:ask, where the left rows are, asks <id>:match, where the
// right ones are.
type foreign struct {
	id, right string
	opts      join.ForeignOptions
}

// keepKey moves records through a topic with the key they have.
func keepKey(o join.ForeignOptions) KeyByOptions {
	return KeyByOptions{OnError: o.OnError, Encode: operator.Encode,
		Key: func(rec *operator.Record) ([]byte, error) { return rec.Key, nil }}
}

// apart moves the right rows of a join by a foreign key through a topic of their own where both
// sides would be in one task: tables that come from one source, or that another step joins. A task
// cannot wait for itself.
func (p *plan) apart() []*draft {
	nodes := slices.Clone(p.b.nodes)
	for again := true; again; {
		again = false
		find := parts(nodes)
		for _, f := range p.b.foreign {
			moved := f.id + "-right"
			match := slices.IndexFunc(nodes, func(d *draft) bool { return d.id == f.id+":match" })
			ask := slices.IndexFunc(nodes, func(d *draft) bool { return d.id == f.id+":ask" })
			if slices.Contains(nodes[match].from, moved) ||
				find(nodes[ask].id) != find(nodes[match].id) {
				continue
			}
			if d := p.b.byID[moved]; d != nil {
				p.fault("join %q: it needs the id %q, which is used by a %s", f.id, moved, d.kind)
				continue
			}
			asks := *nodes[match]
			asks.from = []string{asks.from[0], moved}
			nodes[match] = &asks
			keyBy := keepKey(f.opts)
			nodes = slices.Insert(nodes, ask, &draft{id: moved, kind: "key_by",
				from: []string{f.right}, keyBy: &keyBy, onError: keyBy.OnError})
			again = true
			break
		}
	}
	return nodes
}

// parts tells which drafts are connected without passing a topic.
func parts(nodes []*draft) (find func(id string) string) {
	root, topics := map[string]string{}, map[string]bool{}
	find = func(id string) string {
		for root[id] != "" {
			id = root[id]
		}
		return id
	}
	for _, d := range nodes {
		topics[d.id] = d.keyBy != nil
	}
	for _, d := range nodes {
		for _, from := range d.from {
			from, _, _ = strings.Cut(from, ".")
			if topics[from] {
				from = fmt.Sprintf("topic %s", from)
			}
			if a, b := find(d.id), find(from); a != b {
				root[a] = b
			}
		}
	}
	return find
}
