package plan

import (
	"fmt"
	"strings"
)

// Explain says what the plan means for who runs it: what it makes in the cluster, what it keeps and
// for how long, what a crash can do to each sink, and what a replay repeats.
func (p *Plan) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pipeline %s\n\ndeterminism %s: %s\n", p.Pipeline, p.Determinism,
		p.Determinism.text())
	for _, why := range p.impurities() {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	b.WriteString("\nguarantees\n")
	for _, s := range p.Sinks {
		fmt.Fprintf(&b, "  %-16s %s\n", s.ID, s.Guarantee)
	}
	b.WriteString("\nstate\n")
	if len(p.Stores) == 0 {
		b.WriteString("  none: a task keeps its positions only\n")
	}
	said := ""
	for _, s := range p.Stores {
		owner := "step " + s.Node
		if s.Table != "" {
			owner = "table " + s.Table
		}
		line := fmt.Sprintf("  %-24s %s, restored from %s\n", owner, p.kept(s), s.Changelog)
		if line != said { // some steps have several stores
			b.WriteString(line)
		}
		said = line
	}
	b.WriteString("\nparts, each a task per partition\n")
	for _, sub := range p.SubTopologies {
		fmt.Fprintf(&b, "  %d reads %s%s: %s\n", sub.Index, strings.Join(sub.Topics, ", "),
			taskText(sub.Partitions), strings.Join(append(sub.Nodes, sub.Sinks...), ", "))
	}
	for _, n := range p.Nodes {
		if n.KeyBy != nil && n.Implicit && (n.KeyBy.Key != nil || n.KeyBy.Group) {
			fmt.Fprintf(&b, "  step %s works by %s: its records are moved there through %s\n",
				n.UserID(), n.KeyBy.by(), n.KeyBy.Topic)
		}
	}
	for _, pattern := range p.Patterns {
		fmt.Fprintf(&b, "  source %s reads %s\n", pattern.Source, patternText(pattern))
	}
	for _, s := range p.Sources {
		if s.MaxSkew > 0 {
			fmt.Fprintf(&b, "  source %s is read at most %s ahead of its slowest partition, of those "+
				"that tasks of the same worker read\n", s.ID, span(s.MaxSkew))
		}
	}
	b.WriteString("\ntopics made when they are not there\n")
	made := 0
	for _, n := range p.Nodes {
		if n.Route != nil {
			made++
			fmt.Fprintf(&b, "  %-44s %s\n", n.Route.Source(), "routed by step "+n.ID)
		}
	}
	for _, t := range p.Topics {
		if t.Create {
			made++
			fmt.Fprintf(&b, "  %-44s %s\n", t.Name, t.Role)
		}
	}
	if made == 0 {
		b.WriteString("  none\n")
	}
	return b.String()
}

// kept says how long rows of a store live.
func (p *Plan) kept(s *Store) string {
	if s.Table != "" {
		return "a row per key, until the key is deleted"
	}
	n := p.Node(s.Node)
	switch {
	case n == nil || n.Aggregate == nil && n.Table == nil && n.Foreign == nil && n.Join == nil:
		return "rows by key"
	case n.Table != nil:
		return "a row per key, until the key is deleted"
	case n.OverTable && n.Aggregate != nil:
		return "a row per group"
	case n.Foreign != nil || n.Join != nil && n.Join.Tables != nil:
		return "rows of the joined tables, until they are deleted"
	case n.Aggregate == nil:
		return "rows by key"
	}
	a := n.Aggregate
	if a.Size == 0 {
		return fmt.Sprintf("a row per key and open window, until it is closed for %s", span(a.Grace))
	}
	return fmt.Sprintf("a row per key and window, until %s after the window's start",
		span(a.Size+a.Grace))
}

// impurities are the reasons why a replay may differ.
func (p *Plan) impurities() (list []string) {
	for _, s := range p.Sources {
		if !s.Deterministic && s.Connector != nil {
			list = append(list, fmt.Sprintf("source %s: connector %s may not read the same again", s.ID,
				s.Connector.Name))
		}
		if s.IdleAfter > 0 {
			list = append(list, fmt.Sprintf("source %s: a partition without records for %s is decided "+
				"to be idle; the decision is in the log, a replay repeats it", s.ID, span(s.IdleAfter)))
		}
	}
	for _, n := range p.Nodes {
		if n.looksUp() {
			list = append(list, fmt.Sprintf("step %s: rows of %s count as they arrive; "+
				"as_of: event_time gives the same again", n.ID, n.Join.Table))
		}
		if c := clock(n.programs()); c != "" {
			list = append(list, fmt.Sprintf("step %s looks at the clock: %s", n.ID, c))
		} else if n.Kind == KindPlugin && !n.Deterministic {
			list = append(list, fmt.Sprintf("step %s: the plugin is not declared deterministic", n.ID))
		}
	}
	for _, s := range p.Sinks {
		if c := clock(s.programs()); c != "" {
			list = append(list, fmt.Sprintf("sink %s looks at the clock: %s", s.ID, c))
		}
	}
	return list
}
