package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

func (c *checker) sinks() {
	routed := slices.ContainsFunc(c.result.Steps, func(s *Step) bool {
		return s.Tree.Operator == "route"
	})
	if len(c.tree.Sinks.Entries) == 0 && !c.broken && !routed {
		c.report(c.tree.Pos, 1, CodeEmptyPipeline, "the pipeline has no sink", "add sinks:")
	}
	for i := range c.tree.Sinks.Entries {
		e := &c.tree.Sinks.Entries[i]
		c.id(e.Key, e.At)
		s := &Sink{ID: e.Key, Tree: &e.Value, Policy: c.result.Policy}
		if s.Tree.OnError != nil {
			s.Policy = c.policy(s.Tree.OnError, &c.result.Policy)
		}
		c.result.Sinks = append(c.result.Sinks, s)
		c.sinkInput(s, e.At)
		c.sinkValue(s)
		if s.Tree.Connector.Set {
			s.Connector = c.connector(s.Tree.Connector, &s.Tree.Config, RoleSink, s.Tree.Pos)
		}
	}
}

// sinkInput finds what a sink reads: from:, else the last step, else the only source.
func (c *checker) sinkInput(s *Sink, at lang.Pos) {
	s.In = &Stream{ID: s.ID, Broken: true, Scope: &expression.Scope{Vars: c.result.Vars}}
	switch f := s.Tree.From; {
	case f.Set:
		if !c.resolve(f) {
			return
		}
		s.From = string(f.Value)
	case f.Pos.IsSet():
		return
	case len(c.tree.Steps.Items) == 0:
		ids := c.onlySource(at, fmt.Sprintf("the sink %q", s.ID))
		if len(ids) == 0 {
			return
		}
		s.From = ids[0]
	default:
		last := c.lastStep()
		if last.Tree.Operator == "route" {
			c.report(at, len(s.ID), CodeNoInput, fmt.Sprintf(
				"the sink %q needs from:, nothing comes out of the last step, a route", s.ID),
				"add  from: "+strings.Join(last.From, " or "))
			return
		}
		if len(last.Arms) > 0 {
			c.report(at, len(s.ID), CodeNoInput,
				fmt.Sprintf("the sink %q needs from:, the last step is a branch", s.ID),
				"add  from: "+armNames(last))
			return
		}
		c.read(last.ID)
		s.From = last.ID
	}
	if in := c.stream(s.From); in != nil {
		s.In = in
	}
}

// lastStep is the last step of the file.
func (c *checker) lastStep() *Step {
	last := &c.tree.Steps.Items[len(c.tree.Steps.Items)-1]
	for _, s := range c.result.Steps {
		if s.Tree == last {
			return s
		}
	}
	return c.result.Steps[len(c.result.Steps)-1]
}

func (c *checker) sinkValue(s *Sink) {
	s.Set = expression.NewSet(s.In.Scope)
	s.Key = c.program(s.Set, s.In, &s.Tree.Key, expression.WantAny)
	if s.In.Table && s.Key != nil && !onlyKey(s.Key) {
		c.report(s.Tree.Key.Pos, len(s.Tree.Key.Text), CodeTableInput, fmt.Sprintf(
			"%q is a table: the deletion of a row has its key and no value, so key: can only look at "+
				"the key", s.In.ID), "leave it out")
	}
	v := &s.Tree.Value
	if v.Projection.Set {
		s.Value = c.projection(s.Set, s.In, &v.Projection)
		return
	}
	if !v.Encoding.Set {
		return
	}
	want := c.doc(&v.Encoding, expression.FormatJSON).Format
	have := s.In.Scope.Value.Format
	switch {
	case s.In.Broken || want == have:
	case have == expression.FormatJSON && want == expression.FormatString:
		s.Text = true // a JSON text without its quotes, other values as JSON
	default:
		c.report(v.Encoding.Pos, len(v.Encoding.Format.Value), CodeFormats,
			fmt.Sprintf("the values here are %s, they cannot be written as %s", have, want), "")
	}
}

// onlyKey tells whether a program looks at the record's key and at nothing else of it.
func onlyKey(p *expression.Program) bool {
	return !slices.ContainsFunc(p.Roots(), func(root string) bool {
		return root != "key" && root != "vars"
	})
}
