package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// TableRows keeps the latest row of every key and gives each change with the row before.
type TableRows struct {
	// IgnoreOld: a row does not replace a newer one.
	IgnoreOld bool
	Store     string
}

// TableJoin says how the rows of two tables meet.
type TableJoin struct {
	// Outer keeps rows of both sides; Join.Left is set too.
	Outer bool
	// Foreign: the left row names the key of the right one.
	Foreign bool
	Stores  []string
}

// Foreign is a part of a join by a foreign key that runs beside the node that makes the results.
type Foreign struct {
	// Part is ask, where left rows are, or match, where right rows are.
	Part string
	// Key gives the key of the right row for a left one; nil unless Part is ask.
	Key    *expression.Program
	Stores []string
}

// table returns the declared table with an id that from: means, nil for any other.
func (b *builder) tableOf(id string) *check.Table {
	for _, t := range b.in.Tables {
		if t.ID == id && string(t.Tree.From.Value) != id {
			return t
		}
	}
	return nil
}

// stepOf returns the step with an id, or nil.
func (b *builder) stepOf(id string) *check.Step {
	for _, s := range b.in.Steps {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// root is the source or step whose records are the rows of a table.
func (b *builder) root(t *check.Table) string {
	switch {
	case t.Step != "":
		return t.Step
	case t.From != nil:
		return t.From.ID
	}
	if b.plan.Source(t.ID) == nil {
		scope := &expression.Scope{Key: t.Key, Value: t.Doc.Doc, Vars: b.plan.Vars}
		was := ""
		if renamed := t.Tree.RenamedFrom.Items; len(renamed) > 0 {
			was = string(renamed[len(renamed)-1].Value)
		}
		b.plan.Sources = append(b.plan.Sources, &Source{ID: t.ID, Was: was, Topic: t.Topic, Key: t.Key,
			Value: t.Doc.Doc, Set: expression.NewSet(scope), Deterministic: true,
			Policy: b.plan.Policy, CloseAtEnd: true, IdleAfter: t.Tree.IdleAfter.Value,
			Pos: t.Tree.Pos})
	}
	return t.ID
}

// ordered tells whether rows of a table count by their time and not by their place in the log.
func ordered(t *lang.Table) bool {
	return t.OutOfOrder.Value == "ignore" || t.History.Value > 0
}

// upserts is what a join of tables reads: it keeps the rows itself.
func (b *builder) upserts(id string) string {
	t := b.tableOf(id)
	switch {
	case t == nil:
		return id
	case ordered(t.Tree):
		return b.changes(id)
	}
	return b.root(t)
}

// upsertsOf is upserts for the right side of a join, which names a declared table always.
func (b *builder) upsertsOf(t *check.Table) string {
	if ordered(t.Tree) {
		return b.changesOf(t)
	}
	return b.root(t)
}

// rowSources finds the sources that only steps over tables read.
func (b *builder) rowSources() {
	rows, streams := map[string]bool{}, map[string]bool{}
	for _, n := range b.plan.Nodes {
		for _, from := range n.From {
			if n.OverTable || n.Kind == KindTable {
				rows[from] = true
			} else {
				streams[from] = true
			}
		}
		if n.Join != nil && n.Join.Streams != nil {
			streams[n.Right] = true
		} else {
			rows[n.Right] = true
		}
	}
	for _, s := range b.plan.Sinks {
		streams[s.From] = true
	}
	for _, s := range b.plan.Sources {
		s.Rows = rows[s.ID] && !streams[s.ID]
	}
}

// changes is what any other step over a table reads: rows with those they take the place of.
func (b *builder) changes(id string) string {
	if t := b.tableOf(id); t != nil {
		return b.changesOf(t)
	}
	s := b.stepOf(id)
	if s == nil || b.tellsChanges(s) {
		return id
	}
	was := ""
	if n := b.plan.Node(id); n != nil {
		was = n.Was
	}
	return b.keep(id, was, id, false, s.Tree.Pos, s.Out)
}

// tellsChanges reports whether the records of a step over a table come with those before them.
func (b *builder) tellsChanges(s *check.Step) bool {
	return s.In.Table && (s.Tree.Operator != "aggregate" || s.Group.Emit.Or("on_update") == "on_update")
}

func (b *builder) changesOf(t *check.Table) string {
	root := b.root(t)
	if s := b.stepOf(root); s != nil && b.tellsChanges(s) && !ordered(t.Tree) {
		return root
	}
	out := &check.Stream{Scope: &expression.Scope{Key: t.Key, Value: t.Doc.Doc}}
	if s := b.stepOf(root); s != nil {
		out = s.Out
	}
	was := ""
	if table := b.plan.Table(t.ID); table != nil {
		was = table.Was
	}
	return b.keep(t.ID, was, root, ordered(t.Tree), t.Tree.Pos, out)
}

// keep adds the node that keeps the rows of a table, once.
func (b *builder) keep(id, was, root string, ignoreOld bool, at lang.Pos, out *check.Stream,
) string {
	n := &Node{ID: id + ".table", Kind: KindTable, From: []string{root}, Implicit: true, Pos: at,
		Key: out.Scope.Key, Value: out.Scope.Value, Rows: out.Scope.Rows, Window: out.Scope.Window,
		Set: expression.NewSet(out.Scope), Policy: b.plan.Policy, Deterministic: true,
		Table: &TableRows{IgnoreOld: ignoreOld, Store: b.name(cmp.Or(was, id), "table-rows")}}
	if was != "" {
		n.Was = was + ".table"
	}
	if b.plan.Node(n.ID) == nil {
		b.taken(at, n.StreamID(), "the rows of "+id)
		b.plan.Nodes = append(b.plan.Nodes, n)
	}
	return n.ID
}

// taken reports a step or source that has the name under which something of the plan runs.
func (b *builder) taken(at lang.Pos, id, what string) {
	if b.plan.Source(id) == nil && b.stepOf(id) == nil {
		return
	}
	b.refuseID(at, id, what)
}

func (b *builder) refuseID(at lang.Pos, id, what string) {
	b.findings = append(b.findings, lang.Finding{File: at.File, Line: at.Line, Col: at.Col,
		Width: 1, Code: check.CodeDuplicateID, Severity: lang.Error,
		Message: fmt.Sprintf("the id %q is needed for %s", id, what),
		Hint:    "give the other step or source another id"})
}

// reads turns what a step names into what its node reads.
func (b *builder) reads(s *check.Step) []string {
	from := slices.Clone(s.From)
	if !s.In.Table {
		return from
	}
	for i, id := range from {
		if s.Tree.Operator == "join" {
			from[i] = b.upserts(id)
		} else {
			from[i] = b.changes(id)
		}
	}
	return from
}

// part makes a node that belongs to the one of s.
func (b *builder) part(n *Node, s *check.Step, name string, from ...string) *Node {
	part := &Node{ID: s.ID + "." + name, Was: n.wasPart(name), From: from, Implicit: true,
		Pos: n.Pos, Set: s.Set, Policy: n.Policy, Deterministic: true, OverTable: true,
		Key: s.In.Scope.Key, Value: s.In.Scope.Value, Rows: s.In.Scope.Rows}
	b.taken(n.Pos, part.StreamID(), fmt.Sprintf("step %q", s.ID))
	b.plan.Nodes = append(b.plan.Nodes, part)
	return part
}

// moved makes the node that sends records through a topic of their own; key nil keeps their key.
func (b *builder) moved(n *Node, s *check.Step, name string, key *expression.Program,
	from string) string {
	part := b.part(n, s, name, from)
	part.Kind = KindKeyBy
	part.KeyBy = &KeyBy{Key: key, Topic: b.name(part.StreamID(), "repartition")}
	return part.ID
}

// groupRows plans an aggregate over a table: rows move to the task of their group.
func (b *builder) groupRows(n *Node, s *check.Step) {
	n.From = []string{b.moved(n, s, "group", s.Program, n.From[0])}
	group := b.plan.Node(n.From[0])
	group.KeyBy.Group = true
	if s.Program != nil {
		group.Key = n.Key
	}
}

// joinTables plans a join of two tables.
func (b *builder) joinTables(n *Node, s *check.Step) {
	kind := s.Tree.Join.Type.Value
	n.Join = &Join{As: s.Row, Left: kind == "left" || kind == "outer",
		Tables: &TableJoin{Outer: kind == "outer", Foreign: s.Relation == check.ByForeignKey}}
	left, right := n.From[0], b.upsertsOf(s.Table)
	if !n.Join.Tables.Foreign {
		n.Right = right
		n.Join.Tables.Stores = []string{b.name(s.ID, "left"), b.name(s.ID, "right")}
		return
	}
	ask := b.part(n, s, "ask", left)
	ask.Kind = KindForeign
	ask.Foreign = &Foreign{Part: "ask", Key: s.Program, Stores: []string{b.name(s.ID, "keys")}}
	subscription := b.moved(n, s, "subscription", nil, ask.ID)
	match := b.part(n, s, "match", subscription)
	match.Kind, match.Right = KindForeign, right
	match.Foreign = &Foreign{Part: "match", Stores: []string{b.name(s.ID, "right"),
		b.name(s.ID, "subscriptions")}}
	n.From = []string{b.moved(n, s, "rows", nil, ask.ID)}
	n.Right = b.moved(n, s, "answer", nil, match.ID)
	n.Join.Tables.Stores = []string{b.name(s.ID, "results")}
}

// tablesText is a join of two tables in a few words.
func (n *Node) tablesText(from string) string {
	t := n.Join.Tables
	kind := "inner"
	switch {
	case t.Outer:
		kind = "outer"
	case n.Join.Left:
		kind = "left"
	}
	if t.Foreign {
		return fmt.Sprintf("%s with %s as %s, %s, by foreign key; a table", from, n.Right, n.Join.As,
			kind)
	}
	return fmt.Sprintf("%s with %s as %s, %s, by key; a table", from, n.Right, n.Join.As, kind)
}

// text is a part of a join by a foreign key in a few words.
func (f *Foreign) text(n *Node, from string) string {
	if f.Part == "ask" {
		return fmt.Sprintf("%s: asks for the rows of %s", from, f.Key.Source())
	}
	return fmt.Sprintf("%s: answers with rows of %s", from, n.Right)
}

// text is what a kept table does in a few words.
func (t *TableRows) text(from string) string {
	if t.IgnoreOld {
		return from + ": the row of each key with the largest time, and what it replaces"
	}
	return from + ": the latest row of each key, and what it replaces"
}
