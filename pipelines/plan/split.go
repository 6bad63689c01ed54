package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// programs are all programs of a node.
func (n *Node) programs() []*expression.Program {
	var out []*expression.Program
	add := func(p *expression.Program) {
		if p != nil {
			out = append(out, p)
		}
	}
	add(n.Filter)
	add(n.FlatMap)
	if n.Map != nil {
		n.Map.Each(add)
	}
	if n.Patch != nil {
		n.Patch.Each(add)
	}
	if n.Log != nil {
		n.Log.Each(add)
	}
	if n.Route != nil {
		n.Route.Each(add)
	}
	if n.KeyBy != nil {
		add(n.KeyBy.Key)
	}
	for _, a := range n.Arms {
		add(a.When)
	}
	if n.Foreign != nil {
		add(n.Foreign.Key)
	}
	if n.Join != nil {
		add(n.Join.Key)
	}
	if n.Aggregate != nil {
		n.Aggregate.programs(add)
	}
	return out
}

func (s *Sink) programs() []*expression.Program {
	var out []*expression.Program
	if s.Key != nil {
		out = append(out, s.Key)
	}
	if s.Value != nil {
		s.Value.Each(func(p *expression.Program) { out = append(out, p) })
	}
	return out
}

// roots are the top names that programs read.
func roots(programs []*expression.Program) map[string]bool {
	out := map[string]bool{}
	for _, p := range programs {
		for _, r := range p.Roots() {
			out[r] = true
		}
	}
	return out
}

// carry works out, from the sinks upwards, which joined rows and windows are still read below
// each node.
func (b *builder) carry() {
	live := map[string]map[string]bool{} // by source, node or arm
	reads := func(from []string, names map[string]bool) {
		for _, id := range from {
			if live[id] == nil {
				live[id] = map[string]bool{}
			}
			for name := range names {
				live[id][name] = true
			}
		}
	}
	for _, s := range b.plan.Sinks {
		reads([]string{s.From}, roots(s.programs()))
	}
	for _, n := range slices.Backward(b.plan.Nodes) {
		below := map[string]bool{}
		for name := range live[n.ID] {
			below[name] = true
		}
		for _, a := range n.Arms {
			for name := range live[a.ID] {
				below[name] = true
			}
		}
		for _, r := range n.Rows {
			if below[r.Name] {
				n.Carry = append(n.Carry, r.Name)
			}
		}
		n.CarryWindow = n.Window && below["window"]
		up := roots(n.programs())
		if n.Aggregate == nil {
			for name := range below {
				if n.Join == nil || n.Join.As != name {
					up[name] = true
				}
			}
		}
		reads(n.Inputs(), up)
	}
}

// domains is a union-find over sources, nodes and repartition topics.
type domains map[string]string

func (d domains) find(x string) string {
	for d[x] != "" {
		x = d[x]
	}
	return x
}

func (d domains) join(a, b string) {
	if a, b = d.find(a), d.find(b); a != b {
		d[b] = a
	}
}

// outOf is the domain of what comes out of a source, node or arm.
func (b *builder) outOf(id string) string {
	if branch, ok := b.arms[id]; ok {
		return "node " + branch
	}
	if n := b.plan.Node(id); n != nil {
		if n.KeyBy != nil {
			return "topic " + n.KeyBy.Topic
		}
		return "node " + id
	}
	return "source " + id
}

// split cuts the plan at repartition topics.
func (b *builder) split() {
	d, subs := b.domains(), map[string]*SubTopology{}
	sub := func(member string) *SubTopology {
		root := d.find(member)
		if subs[root] == nil {
			subs[root] = &SubTopology{Index: len(b.plan.SubTopologies)}
			b.plan.SubTopologies = append(b.plan.SubTopologies, subs[root])
		}
		return subs[root]
	}
	for _, s := range b.plan.Sources {
		if !s.TableOnly {
			t := sub("source " + s.ID)
			t.Topics = append(t.Topics, s.Topic)
			b.nameSub(t, cmp.Or(s.Group, s.StreamID()))
		}
	}
	for _, n := range b.plan.Nodes {
		t := sub("node " + n.ID)
		n.Sub = t.Index
		t.Nodes = append(t.Nodes, n.ID)
		if n.looksUp() && !slices.Contains(t.Tables, n.Join.Table) {
			t.Tables = append(t.Tables, n.Join.Table)
		}
		if n.KeyBy != nil {
			next := sub("topic " + n.KeyBy.Topic)
			next.Topics = append(next.Topics, n.KeyBy.Topic)
			b.nameSub(next, n.StreamID())
		}
	}
	for _, s := range b.plan.Sinks {
		t := sub("sink " + s.ID)
		s.Sub = t.Index
		t.Sinks = append(t.Sinks, s.ID)
	}
}

// nameSub names a part after the first stream it reads.
func (b *builder) nameSub(t *SubTopology, stream string) {
	if t.Name == "" {
		t.Name, t.Changelog = stream, b.name(stream, "changelog")
	}
}

// topics lists every topic, with how many partitions it is to have.
func (b *builder) topics() {
	b.inputTopics()
	b.nodeTopics()
	p := b.plan
	for _, s := range p.Sinks {
		role := TopicSink
		if s.Connector != nil {
			role = TopicOutput
		}
		b.topic(&Topic{Name: p.OutputTopic(s), Role: role, Create: true,
			SameAs: p.SubTopologies[s.Sub].Topics[0]})
	}
	for _, name := range b.deadLetterTopics() {
		b.topic(&Topic{Name: name, Role: TopicDLQ, Create: true, Partitions: 1})
	}
	for _, t := range p.SubTopologies {
		b.topic(&Topic{Name: t.Changelog, Role: TopicChangelog, Create: true, Compacted: true,
			SameAs: t.Topics[0]})
	}
	if p.FilledByConnectors() {
		b.topic(&Topic{Name: PositionTopic(p.Pipeline), Role: TopicPositions, Create: true,
			Partitions: 1, Compacted: true})
	}
	for _, t := range p.SubTopologies {
		b.copartition(t)
	}
	for _, t := range p.SubTopologies {
		t.Partitions = b.partitions(t.Topics[0], 0)
	}
}

func (b *builder) inputTopics() {
	p := b.plan
	for _, s := range p.Sources {
		role := TopicSource
		if s.TableOnly {
			role = TopicTable
		}
		b.topic(&Topic{Name: s.Topic, Role: role, Create: s.Connector != nil,
			Compacted: s.TableOnly, Partitions: b.declared(s.ID)})
	}
	for _, t := range p.Tables {
		if t.Topic == "" {
			continue // made of a step
		}
		b.topic(&Topic{Name: t.Topic, Role: TopicTable, Compacted: true})
	}
	for _, t := range p.SubTopologies {
		for _, id := range t.Tables {
			table := p.Table(id)
			p.Stores = append(p.Stores, &Store{Name: table.Store, Table: id, Changelog: t.Changelog})
		}
	}
}

// nodeTopics are those that steps write beside the sinks.
func (b *builder) nodeTopics() {
	p := b.plan
	for _, n := range p.Nodes {
		sub := p.SubTopologies[n.Sub]
		if n.KeyBy != nil {
			b.topic(&Topic{Name: n.KeyBy.Topic, Role: TopicRepartition, Create: true,
				SameAs: sub.Topics[0]})
		}
		for _, name := range n.stores() {
			p.Stores = append(p.Stores, &Store{Name: name, Node: n.ID, Changelog: sub.Changelog})
		}
		if late := n.LateTopic(); late != "" {
			b.topic(&Topic{Name: late, Role: TopicLate, Create: true, Partitions: 1})
		}
	}
}

// topic adds a topic once; the first role it has counts.
func (b *builder) topic(t *Topic) {
	if b.plan.Topic(t.Name) == nil {
		b.plan.Topics = append(b.plan.Topics, t)
	}
}

func (b *builder) deadLetterTopics() []string {
	var out []string
	add := func(p check.Policy) {
		if p.DLQ != "" && !slices.Contains(out, p.DLQ) {
			out = append(out, p.DLQ)
		}
	}
	add(b.plan.Policy)
	for _, n := range b.plan.Nodes {
		add(n.Policy)
	}
	for _, s := range b.plan.Sinks {
		add(s.Policy)
	}
	return out
}

// declared is the number of partitions the file gives a source.
func (b *builder) declared(source string) int32 {
	for _, s := range b.in.Sources {
		if s.ID == source {
			return int32(s.Tree.Partitions.Value)
		}
	}
	return 0
}

// partitions follows SameAs; 0 when nothing is said.
func (b *builder) partitions(name string, depth int) int32 {
	t := b.plan.Topic(name)
	if t == nil || depth > len(b.plan.Topics) {
		return 0
	}
	if t.Partitions > 0 || t.SameAs == "" {
		return t.Partitions
	}
	return b.partitions(t.SameAs, depth+1)
}

// copartition makes the topics of a part agree where it works by key: a record's key must be in
// the same partition of all of them. One that is made here follows one that is there or declared.
func (b *builder) copartition(s *SubTopology) {
	stateful := len(s.Tables) > 0
	for _, id := range s.Nodes {
		stateful = stateful || len(b.plan.Node(id).stores()) > 0
	}
	group := slices.Clone(s.Topics)
	for _, id := range s.Tables {
		if t := b.plan.Table(id); !t.Global && !slices.Contains(group, t.Topic) {
			group = append(group, t.Topic)
		}
	}
	if !stateful || len(group) < 2 {
		return
	}
	s.CoPartitioned = group
	leader := group[0]
	rank := func(name string) int {
		t := b.plan.Topic(name)
		switch {
		case t.Role == TopicRepartition:
			return 0 // ours: follows whatever there is
		case t.Partitions > 0:
			return 3
		case !t.Create:
			return 2 // somebody else's: its number is what it is
		}
		return 1
	}
	for _, name := range group[1:] {
		if rank(name) > rank(leader) {
			leader = name
		}
	}
	for _, name := range group {
		t := b.plan.Topic(name)
		if name == leader {
			if t.SameAs != "" && slices.Contains(group, t.SameAs) {
				t.SameAs = ""
			}
			continue
		}
		if t.Partitions > 0 && t.Partitions != b.plan.Topic(leader).Partitions {
			b.mismatch(name, leader)
		}
		if t.Partitions == 0 {
			t.SameAs = leader
		}
	}
}

func (b *builder) mismatch(name, leader string) {
	counts := fmt.Sprintf("%s has %d partitions, %s has %d", name,
		b.plan.Topic(name).Partitions, leader, b.plan.Topic(leader).Partitions)
	for _, s := range b.in.Sources {
		if s.Topic != name {
			continue
		}
		at := s.Tree.Partitions.Pos
		b.findings = append(b.findings, lang.Finding{File: at.File, Line: at.Line, Col: at.Col,
			Width: 1, Code: check.CodePartitions, Severity: lang.Error,
			Message: "topics that are joined by key need the same number of partitions: " + counts,
			Hint:    "declare the number once; the other follows"})
		return
	}
	b.findings = append(b.findings, lang.Finding{Code: check.CodePartitions,
		Severity: lang.Error, File: strings.TrimSpace(b.in.Tree.Pos.File), Line: 1, Col: 1,
		Message: "topics that are joined by key need the same number of partitions: " + counts})
}
