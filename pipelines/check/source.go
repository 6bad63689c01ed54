package check

import (
	"fmt"
	"maps"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

func (c *checker) sources() {
	if len(c.tree.Sources.Entries)+len(c.tree.Tables.Entries) == 0 && !c.broken {
		c.report(c.tree.Pos, 1, CodeEmptyPipeline, "the pipeline has no source", "add sources:")
	}
	for i := range c.tree.Sources.Entries {
		e := &c.tree.Sources.Entries[i]
		s := &Source{ID: e.Key, Tree: &e.Value, Topic: string(e.Value.Topic.Value)}
		c.id(e.Key, e.At)
		c.declare(e.Key, &endpoint{at: e.At, what: "source", source: s, arm: -1})
		c.result.Sources = append(c.result.Sources, s)
		c.source(s, e.At)
	}
}

// id checks the form of a key that is an id.
func (c *checker) id(id string, at lang.Pos) {
	if !lang.IsID(id) {
		c.report(at, len(id), lang.CodeBadName, fmt.Sprintf("%q is not an id", id),
			"letters, digits, _ and -, starting with a letter, at most 64 characters")
	}
}

func (c *checker) source(s *Source, at lang.Pos) {
	t := s.Tree
	value := c.doc(&t.Value, expression.FormatJSON)
	if s.Topic == "" {
		first := s.ID
		if was := t.RenamedFrom.Items; len(was) > 0 {
			first = string(was[len(was)-1].Value)
		}
		s.Topic = string(c.tree.Name.Value) + "-" + first
	}
	if value.Format == expression.FormatJSON && value.Type == nil && !t.Value.Schema.Set &&
		!c.tree.Shorthand && t.Pos.IsSet() && (t.Value.Set || !t.Value.Format.Pos.IsSet()) {
		c.report(at, len(s.ID), CodeUntyped,
			fmt.Sprintf("the values of %q have no schema, their fields are not checked", s.ID),
			"declare schemas: and say  value: {format: json, schema: Name}")
	}
	key := c.doc(&t.Key.Encoding, expression.FormatString)
	raw := &expression.Scope{Key: key, Value: value, Vars: c.result.Vars}
	s.Set = expression.NewSet(raw)
	in := &Stream{ID: s.ID, Scope: raw}
	if t.Key.Expr.Set {
		if t.Connector.Set {
			s.Key = c.program(s.Set, in, &t.Key.Expr, expression.WantAny)
			key = keyDoc(s.Key)
		} else {
			c.keyFormat(&t.Key.Expr)
		}
	}
	s.EventTime = c.program(s.Set, in, &t.EventTime, expression.WantTime)
	s.KeyDoc = key
	s.Policy = c.badTime(t)
	s.CloseAtEnd = t.OnEnd.Or(c.tree.OnEnd.Or("keep")) == "close"
	scope := *raw
	scope.Key = key
	s.Out = &Stream{ID: s.ID, Scope: &scope, Keys: []string{"key"},
		KeyKnown: t.Key.Encoding.Set || t.Key.Expr.Set}
	if t.Key.Expr.Set {
		s.Out.Keys = append(s.Out.Keys, normal(t.Key.Expr.Text))
	}
	if t.Connector.Set {
		s.Connector = c.connector(t.Connector, &t.Config, RoleSource, t.Pos)
	}
}

// keyFormat reports the key: of a topic that is no format: a mistyped one, or an expression.
func (c *checker) keyFormat(key *lang.Expr) {
	if text := normal(key.Text); lang.IsID(text) {
		c.report(key.Pos, len(text), CodeKeyRule, fmt.Sprintf("%q is no format of a key", text),
			"one of string, json, bytes")
		return
	}
	c.report(key.Pos, len(key.Text), CodeKeyRule,
		"the key of a topic's records is there already; key: is its format here",
		"say  key: string  and make a new key with a step:  - key_by: "+key.Text)
}

// badTime is the policy of a source: that of the pipeline, and what on_bad_time says of records
// whose event time cannot be told.
func (c *checker) badTime(t *lang.Source) Policy {
	p := c.result.Policy
	action := t.OnBadTime
	if !action.Set || action.Value == "partition_time" {
		return p
	}
	p.ByClass = maps.Clone(p.ByClass)
	p.ByClass["event_time"] = Action(action.Value)
	if p.ByClass["event_time"] == ActionDLQ {
		c.needDLQ(p, action.Pos, len(action.Value))
	}
	return p
}

// keyDoc is how the key an expression makes is read again. Text is written as it is; numbers and
// other values as JSON. What is not known to be a number is read as text.
func keyDoc(p *expression.Program) expression.Doc {
	if p != nil {
		switch p.Type.Kind {
		case expression.KindInt, expression.KindFloat, expression.KindBool,
			expression.KindObject, expression.KindList:
			return expression.Doc{Format: expression.FormatJSON, Type: p.Type}
		case expression.KindBytes:
			return expression.Doc{Format: expression.FormatBytes}
		}
	}
	return expression.Doc{Format: expression.FormatString}
}

func (c *checker) tables() {
	for i := range c.tree.Tables.Entries {
		e := &c.tree.Tables.Entries[i]
		t := &Table{ID: e.Key, Tree: &e.Value, Topic: string(e.Value.Topic.Value)}
		c.id(e.Key, e.At)
		c.result.Tables = append(c.result.Tables, t)
		t.Doc.Doc = c.doc(&t.Tree.Value, expression.FormatJSON)
		t.Key = c.doc(&t.Tree.Key, expression.FormatString)
		if f := t.Tree.From; f.Set {
			c.tableSource(t, f)
		}
		c.declareTable(t, e.At)
	}
}

func (c *checker) tableSource(t *Table, f lang.Name) {
	id := string(f.Value)
	e, ok := c.names[id]
	if ok && e.source != nil {
		t.From, t.Topic = e.source, e.source.Topic
		t.Doc.Doc, t.Key = e.source.Out.Scope.Value, e.source.Out.Scope.Key
		e.source.TableOnly = true
		if !e.source.Out.KeyKnown {
			c.report(e.at, len(id), CodeNeedsKey,
				fmt.Sprintf("the table %q needs keys, the source says nothing of them", t.ID),
				"add  key: string,  or with a connector  key: value.field")
		}
		return
	}
	for i := range c.tree.Steps.Items {
		if string(c.tree.Steps.Items[i].ID.Value) == id {
			t.Step, t.Topic = id, ""
			return
		}
	}
	hint := ""
	if near := lang.Nearest(id, c.tree.Sources.Keys()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	c.report(f.Pos, len(id), CodeUnknownFrom, fmt.Sprintf("there is no source %q", id), hint)
}
