package lang

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Topics are the topics of a source that has several.
type Topics struct {
	Items []TopicName
	// Pattern, if set, is a regular expression that finds them: it matches the whole name.
	Pattern string
	Pos     Pos
	Set     bool
}

func (t *Topics) decode(d *decoder, n *node, f *field) {
	t.Pos, t.Set = n.pos, true
	if n.kind == kindScalar && !n.isNull() && !topicPattern.MatchString(n.value) {
		if _, err := regexp.Compile(n.value); err != nil {
			d.reportAt(n, CodeBadValue, fmt.Sprintf("%q is no topic and no pattern: %v", n.value, err),
				"name them,  topics: [orders-de, orders-fr]  , or write a regular expression,"+
					"  topics: 'orders-.*'")
			return
		}
		t.Pattern = n.value
		return
	}
	list := List[TopicName]{}
	list.decode(d, n, &field{key: f.key, one: true, required: true})
	t.Items = list.Items
}

func (t *Topics) schema(g *schemaGen, f *field) map[string]any {
	list := (&List[TopicName]{}).schema(g, &field{key: f.key, one: true})
	return map[string]any{"anyOf": []any{list, map[string]any{"type": "string", "format": "regex"}}}
}

// Pattern finds the topics of a source by their names.
type Pattern struct {
	// Source is the id in the file; the sources of the topics belong to it.
	Source string
	Text   string
	Pos    Pos
	// Topics are those it found, in the order in which they were.
	Topics []string
}

// Matches tells whether a topic is one of them. Internal ones never are: of Kafka (__…) and of
// pipelines.
func (p Pattern) Matches(topic string) bool {
	for _, suffix := range []string{"-changelog", "-repartition"} {
		if strings.HasSuffix(topic, suffix) {
			return false
		}
	}
	re, err := regexp.Compile("^(?:" + p.Text + ")$")
	return err == nil && !strings.HasPrefix(topic, "__") && re.MatchString(topic)
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
// that merges them. matched are the topics that patterns have found, by source; one that has found
// none stands for itself, for checks without a cluster.
func (p *Pipeline) spreadTopics(matched map[string][]string) {
	var sources []Entry[Source]
	var merges []Step
	for _, e := range p.Sources.Entries {
		topics := e.Value.Topics.Items
		if e.Value.Topics.Pattern != "" && !e.Value.Topic.Set && !e.Value.Connector.Set {
			topics = p.findTopics(&e, matched[e.Key])
		}
		switch {
		case len(topics) == 0 || e.Value.Topic.Set || e.Value.Connector.Set:
			sources = append(sources, e)
			continue
		case len(topics) == 1 && e.Value.Group == "":
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

// findTopics gives the topics of a source with a pattern, and notes them.
func (p *Pipeline) findTopics(e *Entry[Source], matched []string) (topics []TopicName) {
	at := e.Value.Topics.Pos
	p.Patterns = append(p.Patterns, Pattern{Source: e.Key, Text: e.Value.Topics.Pattern, Pos: at,
		Topics: slices.Clone(matched)})
	if len(matched) == 0 {
		e.Value.Topic = TopicName{Value: Topic(e.Value.Topics.Pattern), Pos: at, Set: true}
		return nil
	}
	e.Value.Group = e.Key
	if was := e.Value.RenamedFrom.Items; len(was) > 0 {
		e.Value.Group = string(was[len(was)-1].Value)
	}
	for _, topic := range matched {
		topics = append(topics, TopicName{Value: Topic(topic), Pos: at, Set: true})
	}
	return topics
}
