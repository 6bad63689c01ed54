package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// Cluster is what a plan is compared with before it is applied.
type Cluster struct {
	// Topics are the topics there are, with their partitions.
	Topics map[string]int32
	// MayRead and MayWrite say what whoever asks may do with a topic; nil where nobody told.
	MayRead, MayWrite func(topic string) bool
	// Writers are other pipelines by the topics their sinks write.
	Writers map[string]string
	// At is what a command that is told needs to reach the cluster, such as " --bootstrap HOST:PORT".
	At string
}

// Against tells what of a plan cannot run on a cluster, or not as it was meant.
func Against(p *Plan, tree *lang.Pipeline, c Cluster) []lang.Finding {
	a := &against{plan: p, tree: tree, cluster: c, inputs: map[string]lang.Pos{}}
	for _, e := range tree.Sources.Entries {
		if s := &e.Value; !s.Connector.Set {
			a.inputs[string(s.Topic.Value)] = s.Topic.Pos
		}
	}
	for _, e := range tree.Tables.Entries {
		if t := &e.Value; t.Topic.Set {
			a.inputs[string(t.Topic.Value)] = t.Topic.Pos
		}
	}
	delete(a.inputs, "")
	for _, pattern := range tree.Patterns {
		if len(pattern.Topics) == 0 {
			delete(a.inputs, pattern.Text)
			a.report(pattern.Pos, pattern.Text, check.CodeNoTopic, fmt.Sprintf("no topic there is "+
				"matches %s", pattern.Text), "the pattern is for whole names; create the first of them: "+
				"millstream topic create NAME --partitions 1"+c.At)
		}
	}
	for _, topic := range slices.SortedFunc(maps.Keys(a.inputs), a.byPlace) {
		a.input(topic, a.inputs[topic])
	}
	for _, s := range p.SubTopologies {
		a.together(s)
	}
	for i := range tree.Sinks.Entries {
		if s := &tree.Sinks.Entries[i].Value; s.Topic.Set {
			a.output(s)
		}
	}
	return lang.SortFindings(a.findings)
}

// against is one run of Against.
type against struct {
	plan    *Plan
	tree    *lang.Pipeline
	cluster Cluster
	// inputs are the topics somebody else fills, with their places.
	inputs   map[string]lang.Pos
	findings []lang.Finding
}

func (a *against) byPlace(x, y string) int {
	p, q := a.inputs[x], a.inputs[y]
	return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col))
}

func (a *against) report(at lang.Pos, topic string, code lang.Code, message, hint string) {
	severity := lang.Error
	if code[0] == 'W' {
		severity = lang.Warning
	}
	a.findings = append(a.findings, lang.Finding{File: at.File, Line: at.Line, Col: at.Col,
		Width: len(topic), Code: code, Severity: severity, Message: message, Hint: hint})
}

// input checks a topic that somebody else fills.
func (a *against) input(topic string, at lang.Pos) {
	if _, ok := a.cluster.Topics[topic]; !ok {
		hint := fmt.Sprintf("create it: millstream topic create %s --partitions 1%s", topic,
			a.cluster.At)
		if near := lang.Nearest(topic, slices.Sorted(maps.Keys(a.cluster.Topics))); near != "" {
			hint = fmt.Sprintf("did you mean %q? or %s", near, hint)
		}
		a.report(at, topic, check.CodeNoTopic, fmt.Sprintf("the topic %q does not exist, or must not "+
			"be seen", topic), hint)
		return
	}
	if may := a.cluster.MayRead; may != nil && !may(topic) {
		a.report(at, topic, check.CodeNoRight, fmt.Sprintf("you may not read the topic %q", topic),
			"the worker needs the right READ on it, if it logs in as you do")
	}
}

// together checks that topics whose equal keys meet are cut alike.
func (a *against) together(s *SubTopology) {
	first := ""
	for _, topic := range s.CoPartitioned {
		n := a.cluster.Topics[topic]
		at, mine := a.inputs[topic]
		switch {
		case n == 0 || !mine:
			continue // made by the pipeline, cut as the others
		case first == "":
			first = topic
			continue
		case n == a.cluster.Topics[first]:
			continue
		}
		a.report(at, topic, check.CodeUnequalTopics, fmt.Sprintf("%q has %d partitions and %q %d, and "+
			"%s puts their equal keys together", topic, n, first, a.cluster.Topics[first],
			a.keeper(s)), a.wayOut(s, topic))
	}
}

// keeper names the step of a part that works by key.
func (a *against) keeper(s *SubTopology) string {
	for _, id := range s.Nodes {
		n := a.plan.Node(id)
		if n.Kind == KindJoin {
			return fmt.Sprintf("the join %q", n.UserID())
		}
	}
	for _, id := range s.Nodes {
		if n := a.plan.Node(id); len(n.stores()) > 0 {
			return fmt.Sprintf("the step %q", n.UserID())
		}
	}
	return "the pipeline"
}

// wayOut says how topics that are not cut alike may still be joined.
func (a *against) wayOut(s *SubTopology, topic string) string {
	for _, id := range s.Tables {
		if t := a.plan.Table(id); len(t.Topic) > 0 {
			return fmt.Sprintf("say  global: true  at the table %q, so that every task has all of its "+
				"rows", id)
		}
	}
	for _, id := range s.Nodes {
		if a.plan.Node(id).OverTable {
			return "cut the topics alike, or join by a field of the value, as  on: value.id  , for " +
				"which rows move"
		}
	}
	return fmt.Sprintf("put a step  - {id: moved, from: …, key_by: key}  between %q and the join: "+
		"what it gives is cut as the other", topic)
}

// output checks a topic that a sink writes.
func (a *against) output(s *lang.Sink) {
	topic := string(s.Topic.Value)
	if other := a.cluster.Writers[topic]; other != "" && !s.Shared.Value {
		a.report(s.Topic.Pos, topic, check.CodeSharedTopic, fmt.Sprintf("the pipeline %q writes the "+
			"topic %q already", other, topic), "write another topic, or say  shared: true  at the sink "+
			"if both are meant to")
	}
	if may := a.cluster.MayWrite; may != nil && !strings.Contains(topic, "{{") && !may(topic) {
		a.report(s.Topic.Pos, topic, check.CodeNoRight, fmt.Sprintf("you may not write the topic %q",
			topic), "the worker needs the right WRITE on it, if it logs in as you do")
	}
}
