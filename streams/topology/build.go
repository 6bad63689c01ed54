package topology

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/millstream-io/millstream/streams/operator"
)

// Build checks everything and returns the topology. partitions returns the number of partitions of
// a topic, 0 if it does not exist; sources and tables must exist. All faults are returned at once,
// joined, and wrap ErrInvalid.
func (b *Builder) Build(partitions func(topic string) int32) (*Topology, error) {
	p := &plan{b: b, partitions: partitions, faults: slices.Clone(b.faults)}
	p.expand()
	p.resolve()
	if len(p.faults) == 0 {
		p.sort()
	}
	if len(p.faults) == 0 {
		p.cut()
		for _, g := range p.groups {
			p.sub(g)
		}
		p.checkTopics()
	}
	if len(p.faults) > 0 {
		return nil, fmt.Errorf("%w:\n%w", ErrInvalid, errors.Join(p.faults...))
	}
	t := &Topology{App: b.opts.App, ConfigHash: b.opts.ConfigHash, CloseAtEnd: b.opts.CloseAtEnd,
		Sign: b.opts.Sign, StepName: b.opts.StepName}
	for i, g := range p.groups {
		g.result.ID = i
		t.Subs = append(t.Subs, g.result)
	}
	return t, nil
}

// plan is the work of one Build.
type plan struct {
	b          *Builder
	partitions func(topic string) int32
	faults     []error
	nodes      []*draft // with every key_by split into a step, a sink and a source
	byID       map[string]*draft
	groups     []*group // in processing order
}

// group is the drafts of one Sub.
type group struct {
	sources []*draft
	nodes   []*draft // steps and sinks
	tables  []*draft
	result  *Sub
	width   int32 // see plan.width, 0 before it is known
	asked   bool  // width is being found out
}

func (p *plan) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, args...))
}

// expand copies the drafts, so that Build may be called again, and splits every key_by in three:
// the step that sets the key, the sink to the repartition topic and the source that reads it.
// Whoever reads the key_by reads that source.
func (p *plan) expand() {
	p.byID = map[string]*draft{}
	for _, d := range p.apart() {
		c := *d
		if d.keyBy == nil {
			p.nodes = append(p.nodes, &c)
			p.byID[d.id] = &c
			continue
		}
		topic := p.b.opts.App + "-" + d.id + "-repartition"
		step := &draft{id: d.id, kind: "key_by", from: d.from, onError: d.onError,
			node: &Node{ID: d.id, Kind: "key_by",
				New:       operator.SelectKey(d.keyBy.Key, d.keyBy.Null),
				Transient: d.keyBy.Transient}}
		sink := &draft{id: d.id + "-repartition", kind: "repartition", onError: d.onError,
			inputs: []input{{of: step}}, keyBy: d.keyBy,
			node: &Node{ID: d.id + "-repartition", Kind: "repartition", Sink: &Sink{Topic: topic,
				Encode: d.keyBy.Encode, Repartition: true}}}
		source := &draft{id: d.id, kind: "source", onError: d.onError, behind: sink,
			source: &Source{ID: d.id, Topic: topic, Writers: []string{}}}
		p.nodes = append(p.nodes, step, sink, source)
		p.byID[d.id] = source
	}
}

// resolve finds what every from means.
func (p *plan) resolve() {
	for _, d := range p.nodes {
		for _, from := range d.from {
			if in, ok := p.find(d, from); ok {
				d.inputs = append(d.inputs, in)
			}
		}
		if d.node != nil && len(d.inputs) == 0 && len(d.from) == 0 {
			p.fault("%s %q: reads from nothing", d.kind, d.id)
		}
		for _, t := range d.tables {
			if x := p.byID[t]; x == nil || x.table == nil {
				p.fault("%s %q: there is no table %q", d.kind, d.id, t)
			}
		}
	}
}

func (p *plan) find(d *draft, from string) (input, bool) {
	id, output, named := strings.Cut(from, ".")
	of := p.byID[id]
	switch {
	case of == nil:
		p.fault("%s %q: reads from %q, which does not exist; there are: %s",
			d.kind, d.id, from, p.ids())
	case of.table != nil:
		p.fault("%s %q: reads from table %q; a table can only be joined", d.kind, d.id, id)
	case of.node != nil && of.node.Sink != nil:
		p.fault("%s %q: reads from %q, which is a sink", d.kind, d.id, id)
	case of.node == nil || len(of.node.Outputs) == 0:
		if named {
			p.fault("%s %q: reads from %q, but %q has no outputs with names",
				d.kind, d.id, from, id)
			return input{}, false
		}
		return input{of: of}, true
	default:
		if i := slices.Index(of.node.Outputs, output); named && i >= 0 {
			return input{of: of, output: i}, true
		}
		p.fault("%s %q: reads from %q; the outputs of %q are: %s.%s", d.kind, d.id, from, id,
			id, strings.Join(of.node.Outputs, ", "+id+"."))
	}
	return input{}, false
}

func (p *plan) ids() string {
	var ids []string
	for id, d := range p.byID {
		if d.table == nil && (d.node == nil || d.node.Sink == nil) {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	return strings.Join(ids, ", ")
}

// sort puts every node behind its inputs, otherwise keeping the order of the calls.
func (p *plan) sort() {
	const (
		unseen = iota
		open
		done
	)
	state := map[*draft]int{}
	var sorted []*draft
	var visit func(d *draft) bool
	visit = func(d *draft) bool {
		switch state[d] {
		case open:
			p.fault("%s %q: reads its own output through other steps", d.kind, d.id)
			return false
		case done:
			return true
		}
		state[d] = open
		for _, in := range d.inputs {
			if !visit(in.of) {
				return false
			}
		}
		if d.behind != nil && !visit(d.behind) {
			return false
		}
		state[d] = done
		sorted = append(sorted, d)
		return true
	}
	for _, d := range p.nodes {
		if !visit(d) {
			return
		}
	}
	p.nodes = sorted
}

// cut finds the parts that are connected without passing a topic.
func (p *plan) cut() {
	root := map[*draft]*draft{}
	find := func(d *draft) *draft {
		for root[d] != nil {
			d = root[d]
		}
		return d
	}
	for _, d := range p.nodes {
		for _, in := range d.inputs {
			if a, b := find(d), find(in.of); a != b {
				root[a] = b
			}
		}
	}
	groups := map[*draft]*group{}
	var order []*group
	for _, d := range p.nodes {
		if d.table != nil {
			continue
		}
		g := groups[find(d)]
		if g == nil {
			g = &group{}
			groups[find(d)] = g
			order = append(order, g)
		}
		if d.source != nil {
			g.sources = append(g.sources, d)
		} else {
			g.nodes = append(g.nodes, d)
		}
		for _, t := range d.tables {
			if x := p.byID[t]; !slices.Contains(g.tables, x) {
				g.tables = append(g.tables, x)
			}
		}
		d.group = g
	}
	p.groups = upstreamFirst(order)
}

// upstreamFirst orders groups so that each comes after those that write its repartition topics.
func upstreamFirst(groups []*group) []*group {
	var sorted []*group
	seen := map[*group]bool{}
	var visit func(g *group)
	visit = func(g *group) {
		if seen[g] {
			return
		}
		seen[g] = true
		for _, s := range g.sources {
			if s.behind != nil {
				visit(s.behind.group)
			}
		}
		sorted = append(sorted, g)
	}
	for _, g := range groups {
		visit(g)
	}
	return sorted
}
