package lang

import "strings"

// Topics are the topics of a source that has several.
type Topics struct {
	Items []TopicName
	Pos   Pos
	Set   bool
}

func (t *Topics) decode(d *decoder, n *node, f *field) {
	t.Pos, t.Set = n.pos, true
	if n.kind == kindScalar && !n.isNull() && !topicPattern.MatchString(n.value) {
		d.reportAt(n, CodeNotYetValue, "topics are named, not found by a pattern",
			"as  topics: [orders-de, orders-fr]")
		return
	}
	list := List[TopicName]{}
	list.decode(d, n, &field{key: f.key, one: true, required: true})
	t.Items = list.Items
}

func (t *Topics) schema(g *schemaGen, f *field) map[string]any {
	return (&List[TopicName]{}).schema(g, &field{key: f.key, one: true})
}

// verifyTopics checks what does not go with topics:.
func (s *Source) verifyTopics(d *decoder, n *node) {
	at := n.get("topics")
	if at == nil {
		return
	}
	for _, key := range []string{"topic", "connector"} {
		if n.get(key) != nil {
			d.reportAt(at, CodeExclusive, "a source has topics: or "+key+":, not both",
				"declare two sources and  merge:  them")
			return
		}
	}
}

// spreadTopics makes a source per topic of those that have several, and a step with the source's id
// that merges them.
func (p *Pipeline) spreadTopics() {
	var sources []Entry[Source]
	var merges []Step
	for _, e := range p.Sources.Entries {
		topics := e.Value.Topics.Items
		switch {
		case len(topics) == 0 || e.Value.Topic.Set || e.Value.Connector.Set:
			sources = append(sources, e)
			continue
		case len(topics) == 1:
			e.Value.Topic = topics[0]
			sources = append(sources, e)
			continue
		}
		merge := Step{ID: Name{Value: ID(e.Key), Pos: e.At, Set: true}, Operator: "merge",
			Pos: e.At, OperatorPos: e.Value.Topics.Pos, Merge: List[Name]{Pos: e.Value.Topics.Pos},
			RenamedFrom: e.Value.RenamedFrom}
		for _, topic := range topics {
			one := e
			suffix := "-" + strings.ReplaceAll(string(topic.Value), ".", "_")
			one.Key = e.Key + suffix
			one.Value.RenamedFrom.Items = nil
			for _, was := range e.Value.RenamedFrom.Items {
				was.Value += ID(suffix)
				one.Value.RenamedFrom.Items = append(one.Value.RenamedFrom.Items, was)
			}
			one.Value.Topic, one.Value.Topics = topic, Topics{}
			sources = append(sources, one)
			merge.Merge.Items = append(merge.Merge.Items,
				Name{Value: ID(one.Key), Pos: topic.Pos, Set: true})
		}
		merges = append(merges, merge)
	}
	p.Sources.Entries = sources
	p.Steps.Items = append(merges, p.Steps.Items...)
}
