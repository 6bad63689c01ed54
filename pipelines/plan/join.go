package plan

import (
	"fmt"

	"github.com/millstream-io/millstream/pipelines/check"
)

// join plans a join of any kind.
func (b *builder) join(n *Node, s *check.Step) {
	if s.Relation != "" {
		b.joinTables(n, s)
		return
	}
	b.rekey(n, s)
	j := s.Tree.Join
	if s.Table == nil {
		b.joinStreams(n, s)
		return
	}
	n.Join = &Join{Table: s.Table.ID, As: s.Row, Left: j.Type.Value == "left",
		MissingDLQ: j.Missing.Value == "dlq"}
	if s.Global {
		n.Join.Key = s.Program
	}
	if s.AsOf {
		b.joinAsOf(n, s)
	}
}

// joinStreams plans a join of two streams; the left one has its key already.
func (b *builder) joinStreams(n *Node, s *check.Step) {
	j := s.Tree.Join
	n.Right = s.Other
	if !s.OtherKeyOK {
		in := s.OtherIn.Scope
		key := &Node{ID: s.ID + ".with", Was: n.wasPart("with"), Kind: KindKeyBy,
			From: []string{s.Other}, Set: s.OtherSet, Policy: s.Policy, Pos: s.Tree.Pos,
			Deterministic: true, Implicit: true,
			Key: n.Key, Value: in.Value, Rows: in.Rows, Window: in.Window}
		key.KeyBy = &KeyBy{Key: s.OtherOn, Topic: b.name(key.StreamID(), "repartition")}
		if j.Type.Value == "outer" {
			key.KeyBy.Null = nullPassed
		}
		b.keyTaken(s, key.StreamID())
		b.plan.Nodes = append(b.plan.Nodes, key)
		n.Right = key.ID
	}
	kind := j.Type.Value
	n.Join = &Join{As: s.Row, Left: kind == "left" || kind == "outer", Streams: &StreamJoin{
		Outer: kind == "outer", Before: j.Within.Before.Value, After: j.Within.After.Value,
		Grace: j.Within.Grace.Value, Late: s.LateAction, LateTopic: string(j.Late.Topic.Value),
		Store: b.name(s.ID, "store")}}
}

// joinAsOf plans a join with a table whose rows are read in the order of event time.
func (b *builder) joinAsOf(n *Node, s *check.Step) {
	t := s.Table
	n.Right = b.root(t)
	j := s.Tree.Join
	n.Join.AsOf = &AsOfJoin{History: t.Tree.History.Value, Grace: j.Grace.Value,
		IgnoreOld: t.Tree.OutOfOrder.Value == "ignore", Late: s.LateAction,
		LateTopic: string(j.Late.Topic.Value), Store: b.name(s.ID, "store")}
}

// text is a join in a few words.
func (n *Node) joinText(from string) string {
	j := n.Join
	if j.Tables != nil {
		return n.tablesText(from)
	}
	if s := j.Streams; s != nil {
		kind := "inner"
		switch {
		case s.Outer:
			kind = "outer"
		case j.Left:
			kind = "left"
		}
		late := s.Late
		if s.LateTopic != "" {
			late = "topic " + s.LateTopic
		}
		return fmt.Sprintf("%s with %s as %s, %s, %s before to %s after, grace %s, late: %s", from,
			n.Right, j.As, kind, span(s.Before), span(s.After), span(s.Grace), late)
	}
	missing := "without a row: dropped"
	if j.Left {
		missing = "without a row: null"
	} else if j.MissingDLQ {
		missing = "without a row: dlq"
	}
	when := ""
	if a := j.AsOf; a != nil {
		when = ", in the order of event time"
		if a.History > 0 {
			when += fmt.Sprintf(", history %s, grace %s", span(a.History), span(a.Grace))
		}
	}
	return fmt.Sprintf("%s with %s as %s, %s%s", from, j.Table, j.As, missing, when)
}

// keyText is the key by which a node's input is grouped.
func (b *builder) keyText(from []string) string {
	by := "key"
	for _, id := range from {
		if up := b.plan.Node(id); up != nil && up.Implicit && up.KeyBy != nil {
			by = signature(up.KeyBy.Key)
		}
	}
	return by
}

// joinState is what the kept records of a join of two streams depend on.
func (b *builder) joinState(n *Node) string {
	if a := n.Join.AsOf; a != nil {
		return digest("join as of", b.keyText(n.From), docText(n.Key), a.History, a.Grace,
			a.IgnoreOld)
	}
	if t := n.Join.Tables; t != nil {
		return digest("join tables", b.keyText(n.From), docText(n.Key), t.Foreign,
			t.Foreign && n.Join.Left)
	}
	s := n.Join.Streams
	if s == nil {
		return ""
	}
	return digest("join streams", b.keyText(n.From), b.keyText([]string{n.Right}), docText(n.Key),
		s.Before, s.After, s.Grace)
}

// stores are the names of the node's own stores.
func (n *Node) stores() []string {
	switch {
	case n.Aggregate != nil:
		return []string{n.Aggregate.Store}
	case n.Gate != nil:
		return []string{n.Gate.Store}
	case n.Plugin != nil && n.Plugin.Timers:
		id := n.StreamID()
		return []string{id + "-timers", id + "-due", id + "-due-wall"}
	case n.Table != nil:
		return []string{n.Table.Store}
	case n.Foreign != nil:
		return n.Foreign.Stores
	case n.Join == nil:
		return nil
	case n.Join.Streams != nil:
		return []string{n.Join.Streams.Store}
	case n.Join.AsOf != nil:
		return []string{n.Join.AsOf.Store}
	case n.Join.Tables != nil:
		return n.Join.Tables.Stores
	}
	return nil
}

// LateTopic is where the node sends late records, "" when that is no topic of its own.
func (n *Node) LateTopic() string {
	switch {
	case n.Aggregate != nil:
		return n.Aggregate.LateTopic
	case n.Join != nil && n.Join.Streams != nil:
		return n.Join.Streams.LateTopic
	case n.Join != nil && n.Join.AsOf != nil:
		return n.Join.AsOf.LateTopic
	}
	return ""
}

// action is all a join does, as text.
func (j *Join) action() string {
	lookup := fmt.Sprintf("{%s %s %t %t}", j.Table, j.As, j.Left, j.MissingDLQ)
	if j.Key != nil {
		lookup += signature(j.Key)
	}
	if j.Tables != nil {
		return fmt.Sprint(lookup, *j.Tables)
	}
	if j.AsOf != nil {
		return fmt.Sprint(lookup, *j.AsOf)
	}
	if j.Streams == nil {
		return lookup
	}
	return fmt.Sprint(lookup, *j.Streams)
}

// looksUp reports whether the node reads rows of a table as they arrive.
func (n *Node) looksUp() bool {
	return n.Join != nil && n.Join.Streams == nil && n.Join.AsOf == nil && n.Join.Tables == nil
}
