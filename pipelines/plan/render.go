package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/millstream-io/millstream/pipelines/lang"
)

// String is the plan as `pipeline plan` prints it. It shows no secret.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pipeline %s   determinism %s: %s\n", p.Pipeline, p.Determinism,
		p.Determinism.text())
	for _, pattern := range p.Patterns {
		fmt.Fprintf(&b, "\nsource %s\n  %s\n", pattern.Source, patternText(pattern))
	}
	for _, s := range p.Sources {
		if !s.TableOnly {
			fmt.Fprintf(&b, "\nsource %s\n", s.ID)
			s.render(&b)
		}
	}
	for _, t := range p.Tables {
		if t.Topic == "" {
			fmt.Fprintf(&b, "\ntable %s\n  from %s\n", t.ID, t.Step)
			continue
		}
		fmt.Fprintf(&b, "\ntable %s\n  topic %s\n", t.ID, t.Topic)
		if s := p.Source(t.Source); s != nil && s.TableOnly {
			s.render(&b)
		}
	}
	for _, sub := range p.SubTopologies {
		fmt.Fprintf(&b, "\npart %d reads %s%s\n", sub.Index, strings.Join(sub.Topics, ", "),
			taskText(sub.Partitions))
		for _, id := range sub.Nodes {
			n := p.Node(id)
			fmt.Fprintf(&b, "  %-16s %-10s %s\n", n.ID, n.Kind, n.text())
		}
	}
	b.WriteString("\nsinks\n")
	for _, s := range p.Sinks {
		to := "topic " + s.Topic
		if s.Connector != nil {
			to = "connector " + s.Connector.Name + " " + config(s.Connector.Config)
		}
		fmt.Fprintf(&b, "  %-16s from %-14s %s\n  %-16s %s\n", s.ID, s.From, to, "",
			s.Guarantee)
	}
	p.renderTopics(&b)
	fmt.Fprintf(&b, "\nerrors  %s\nplan    %s\n", p.policyText(), p.Fingerprint[:16])
	return b.String()
}

// patternText is a pattern with what it finds.
func patternText(p lang.Pattern) string {
	if len(p.Topics) == 0 {
		return fmt.Sprintf("topics %s   plan and apply look which there are", p.Text)
	}
	return fmt.Sprintf("topics %s   finds %s; those that come later are read from their beginning",
		p.Text, strings.Join(p.Topics, ", "))
}

func (s *Source) render(b *strings.Builder) {
	if s.Connector != nil {
		fmt.Fprintf(b, "  connector %s %s\n", s.Connector.Name, config(s.Connector.Config))
	}
	key := s.Key.Format.String()
	if s.KeyProgram != nil {
		key = s.KeyProgram.Source()
	}
	fmt.Fprintf(b, "  topic %s   key %s   value %s\n", s.Topic, key, s.Value.Format)
	if s.EventTime != nil {
		fmt.Fprintf(b, "  event time %s, at most %s out of order\n", s.EventTime.Source(),
			span(s.MaxLateness))
	}
	if s.PartitionTime {
		b.WriteString("  without a usable event time: the latest of the partition\n")
	}
	if s.IdleAfter > 0 {
		fmt.Fprintf(b, "  a partition without records for %s holds up nobody\n", span(s.IdleAfter))
	}
	if s.MaxSkew > 0 {
		fmt.Fprintf(b, "  read at most %s ahead of the slowest partition\n", span(s.MaxSkew))
	}
}

func (d Determinism) text() string {
	switch d {
	case DeterminismA:
		return "a replay gives the same bytes"
	case DeterminismB:
		return "a replay gives the same bytes; inputs are merged by event time"
	}
	return "a replay may differ"
}

func taskText(partitions int32) string {
	switch partitions {
	case 0:
		return ""
	case 1:
		return "   1 task"
	}
	return fmt.Sprintf("   %d tasks", partitions)
}

// text is a node in a few words.
func (n *Node) text() string {
	from := strings.Join(n.From, ", ")
	switch n.Kind {
	case KindFilter:
		return fmt.Sprintf("%s: %s", from, n.Filter.Source())
	case KindKeyBy:
		return fmt.Sprintf("%s: %s, through %s%s", from, n.KeyBy.by(), n.KeyBy.Topic,
			map[string]string{"drop": ", null: dropped", "dlq": ", null: dlq",
				nullPassed: ", null: passed on"}[n.KeyBy.Null])
	case KindJoin:
		return n.joinText(from)
	case KindAggregate, KindReduce:
		if n.OverTable {
			return from + ": over the rows of a table, " + n.Aggregate.emitText() + "; a table"
		}
		return n.Aggregate.text(from)
	case KindDedupe, KindThrottle:
		return n.Gate.text(from, n.Kind)
	case KindTable:
		return n.Table.text(from)
	case KindForeign:
		return n.Foreign.text(n, from)
	case KindPlugin:
		return fmt.Sprintf("%s: plugin %s", from, strings.TrimSuffix(
			n.Plugin.Alias+"/"+n.Plugin.Operator, "/"))
	case KindBranch:
		var ids []string
		for _, a := range n.Arms {
			ids = append(ids, a.ID)
		}
		return fmt.Sprintf("%s: to %s", from, strings.Join(ids, ", "))
	}
	return from
}

func (p *Plan) renderTopics(b *strings.Builder) {
	b.WriteString("\ntopics\n")
	for _, n := range p.Nodes {
		if n.Route != nil {
			fmt.Fprintf(b, "  %-36s %-12s as records name them, by step %s\n", n.Route.Source(),
				"routed", n.ID)
		}
	}
	for _, t := range p.Topics {
		size := "as it is"
		switch {
		case t.Partitions == 1:
			size = "1 partition"
		case t.Partitions > 0:
			size = fmt.Sprintf("%d partitions", t.Partitions)
		case t.SameAs != "":
			size = "partitions as " + t.SameAs
		case t.Create:
			size = "partitions by the broker's default"
		}
		if t.Compacted {
			size += ", compacted"
		}
		fmt.Fprintf(b, "  %-36s %-12s %s\n", t.Name, t.Role, size)
	}
}

func (p *Plan) policyText() string {
	if p.Policy.Then == "dlq" {
		return "to " + p.Policy.DLQ
	}
	return string(p.Policy.Then)
}

// span writes a duration as a file has it: 1d, not 24h0m0s.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d > 0 && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d > 0 && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d > 0 && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
