package topology

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/millstream-io/millstream/streams/operator"
)

// sub makes the Sub of a group. Groups that write its repartition topics were made before.
func (p *plan) sub(g *group) {
	s := &Sub{Name: cmp.Or(g.sources[0].source.Group, g.sources[0].id)}
	g.result = s
	ports := map[*draft]Port{}
	for i, d := range g.sources {
		src := *d.source
		src.Partitions = p.sourcePartitions(d)
		src.OnError = p.policy(d)
		if d.behind != nil {
			up := d.behind.group.result
			src.Writers = make([]string, up.Partitions)
			for w := range src.Writers {
				src.Writers[w] = Writer(p.b.opts.App, up.Name, int32(w))
			}
		}
		ports[d] = Port{Source: i}
		s.Partitions = max(s.Partitions, src.Partitions)
		s.Sources = append(s.Sources, src)
	}
	for _, d := range g.tables {
		t := *d.table
		t.OnError = p.policy(d)
		if t.Partitions = p.partitions(t.Topic); t.Partitions <= 0 {
			p.fault("table %q: topic %q does not exist", d.id, t.Topic)
		}
		s.Tables = append(s.Tables, t)
		s.Stores = append(s.Stores, operator.StoreSpec{Name: t.ID})
	}
	for i, d := range g.nodes {
		n := *d.node
		n.OnError = p.policy(d)
		for _, in := range d.inputs {
			port, ok := ports[in.of]
			if !ok {
				panic("invariant: inputs come before their readers in a sub-topology")
			}
			port.Output = in.output
			n.Inputs = append(n.Inputs, port)
		}
		ports[d] = Port{Source: -1, Node: i}
		if n.Sink != nil {
			sink := *n.Sink
			sink.Partitions = p.sinkPartitions(d, s)
			n.Sink = &sink
		}
		s.Stores = append(s.Stores, n.Stores...)
		s.Nodes = append(s.Nodes, n)
	}
	p.checkStores(s)
	p.checkPartitions(s)
	s.Fingerprint = fingerprint(s)
}

// Writer returns the name under which a task writes; it identifies the task in lane headers.
func Writer(app, sub string, partition int32) string {
	return fmt.Sprintf("%s.%s.%d", app, sub, partition)
}

func (p *plan) policy(d *draft) operator.ErrorPolicy {
	if d.onError != nil {
		return *d.onError
	}
	return p.b.opts.OnError
}

// sourcePartitions returns the partitions of a source topic.
func (p *plan) sourcePartitions(d *draft) int32 {
	if d.behind != nil {
		return p.repartitioned(d)
	}
	n := p.partitions(d.source.Topic)
	if n <= 0 {
		p.fault("source %q: topic %q does not exist", d.id, d.source.Topic)
	}
	return n
}

// sinkPartitions returns the partitions of a sink's topic, 0 when they are not known.
func (p *plan) sinkPartitions(d *draft, s *Sub) int32 {
	if d.keyBy == nil && d.node.Sink.TopicOf != nil {
		return 0
	}
	if d.keyBy == nil {
		return max(0, p.partitions(d.node.Sink.Topic))
	}
	for _, x := range p.nodes {
		if x.behind == d {
			return p.repartitioned(x)
		}
	}
	panic("invariant: every repartition topic has a source that reads it")
}

// repartitioned returns the number of partitions of the topic that a key_by is read from: what the
// key_by says; else, because equal keys of all inputs must meet, that of the part it is read in.
func (p *plan) repartitioned(source *draft) int32 {
	if n := p.cutAs(source); n > 0 {
		return n
	}
	return p.width(source.group)
}

// cutAs returns the number of partitions that is given for a repartition topic, 0 if none is.
func (p *plan) cutAs(source *draft) int32 {
	if n := source.behind.keyBy.Partitions; n > 0 || p.b.opts.Cut == nil {
		return n
	}
	return p.b.opts.Cut(source.id)
}

// width returns the number of partitions the inputs of a part have, or are to have where they are
// ours: the most of those that are given, else of the parts upstream.
func (p *plan) width(g *group) int32 {
	if g.width > 0 || g.asked { // one that reads itself is as wide as its other inputs
		return g.width
	}
	g.asked = true
	defer func() { g.asked = false }()
	for _, d := range g.sources {
		if d.behind == nil {
			g.width = max(g.width, p.partitions(d.source.Topic))
		} else {
			g.width = max(g.width, p.cutAs(d))
		}
	}
	for _, d := range g.tables {
		if !d.table.Broadcast {
			g.width = max(g.width, p.partitions(d.table.Topic))
		}
	}
	for _, d := range g.sources {
		if g.width == 0 && d.behind != nil {
			upstream := int32(0)
			for _, x := range g.sources {
				if x.behind != nil {
					upstream = max(upstream, p.width(x.behind.group))
				}
			}
			g.width = upstream
		}
	}
	return g.width
}

// checkStores finds names used twice.
func (p *plan) checkStores(s *Sub) {
	seen := map[string]bool{}
	for _, x := range s.Stores {
		if seen[x.Name] {
			p.fault("sub-topology %q: two stores are called %q", s.Name, x.Name)
		}
		seen[x.Name] = true
	}
}

// checkPartitions finds inputs whose equal keys would meet different tasks.
func (p *plan) checkPartitions(s *Sub) {
	var list []string
	equal := true
	check := func(what, topic string, n int32) {
		list = append(list, fmt.Sprintf("%s %q: topic %q, %d partitions, murmur2 of the key bytes",
			what, topic, topic, n))
		equal = equal && n == s.Partitions
	}
	stateful := false
	for i := range s.Nodes {
		stateful = stateful || len(s.Nodes[i].Stores) > 0
	}
	for i := range s.Sources {
		check("source", s.Sources[i].Topic, s.Sources[i].Partitions)
	}
	for i := range s.Tables {
		if !s.Tables[i].Broadcast {
			stateful = true
			check("table", s.Tables[i].Topic, s.Tables[i].Partitions)
		}
	}
	if stateful && !equal {
		p.fault("sub-topology %q: its inputs must have the same number of partitions, so that "+
			"equal keys meet; use key_by on the stream or a broadcast table:\n  %s",
			s.Name, strings.Join(list, "\n  "))
	}
}

// checkTopics finds loops through topics the builder does not see as edges.
func (p *plan) checkTopics() {
	for _, g := range p.groups {
		for i := range g.result.Sources {
			src := &g.result.Sources[i]
			for j := range g.result.Nodes {
				n := &g.result.Nodes[j]
				if n.Sink != nil && n.Sink.Topic == src.Topic {
					p.fault("sink %q: writes to topic %q, which source %q of the same "+
						"sub-topology reads: the records would never end", n.ID, src.Topic, src.ID)
				}
			}
		}
	}
}

// fingerprint describes what the state of a Sub depends on. Stateless steps are left out: editing
// a filter keeps the state.
func fingerprint(s *Sub) string {
	h := sha256.New()
	for _, line := range s.Shape("") {
		fmt.Fprintf(h, "%s\n", line)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Shape lists what state of the Sub depends on, a line each, without the name of its App in those
// of its repartition topics: two Subs of one shape can go on with each other's state.
func (s *Sub) Shape(app string) []string {
	lines := []string{fmt.Sprintf("1 %s %d", s.Name, s.Partitions)}
	groups := map[string]bool{}
	for i := range s.Sources {
		src, topic := &s.Sources[i], s.Sources[i].Topic
		if src.Group != "" {
			if !groups[src.Group] {
				lines = append(lines, "sources "+src.Group)
			}
			groups[src.Group] = true
			continue
		}
		if src.Repartition() {
			topic = strings.TrimPrefix(topic, app)
		}
		lines = append(lines, fmt.Sprintf("source %s %s %d %d", src.ID, topic, src.Partitions,
			len(src.Writers)))
	}
	for i := range s.Tables {
		t := &s.Tables[i]
		lines = append(lines, fmt.Sprintf("table %s %s %t", t.ID, t.Topic, t.Broadcast))
	}
	for i := range s.Nodes {
		for _, x := range s.Nodes[i].Stores {
			lines = append(lines, fmt.Sprintf("store %s %d %s", x.Name, x.Kind, x.Format))
		}
	}
	return lines
}

// InternalTopics returns the topics that have to exist before tasks run, beside those of sources,
// tables, sinks and dead letters.
func (t *Topology) InternalTopics() []InternalTopic {
	var list []InternalTopic
	for _, s := range t.Subs {
		for i := range s.Sources {
			if src := &s.Sources[i]; src.Repartition() {
				list = append(list, InternalTopic{Name: src.Topic, Partitions: src.Partitions,
					Kind: "repartition"})
			}
		}
		windowed := false
		for _, x := range s.Stores {
			windowed = windowed || x.Kind == operator.Windowed
		}
		list = append(list, InternalTopic{Name: t.App + "-" + s.Name + "-changelog",
			Partitions: s.Partitions, Kind: "changelog", Windowed: windowed})
	}
	return list
}
