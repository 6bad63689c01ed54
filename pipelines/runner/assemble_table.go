package runner

import (
	"time"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// keepRows keeps the rows of a table and gives their changes.
func (a *assembly) keepRows(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	opts := join.ChangesOptions{Store: id, OnError: policy, Encode: docEncoder(n.Value)}
	if n.Table.IgnoreOld {
		opts.OutOfOrder = join.Ignore
	}
	a.b.Changes(id, from, opts)
}

// rowCheck refuses what cannot be a row of a table.
func rowCheck(doc expression.Doc) func(*operator.Record) error {
	encode := docEncoder(doc)
	return func(r *operator.Record) error {
		switch {
		case r.Key == nil:
			return operator.WithClass(operator.ClassNullKey, operator.ErrNullKey)
		case r.IsNull() || encode == nil:
			return nil
		}
		if _, _, err := encode(r); err != nil {
			return err
		}
		if r.Doc == nil {
			r.Doc = validated{}
		}
		return nil
	}
}

// groupRows moves the rows of a table to the tasks of their groups, as topology.AggregateTable
// does; the aggregate is a node of its own.
func (a *assembly) groupRows(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	rows := n.UserID() + ":rows"
	a.b.Process(rows, []string{from}, topology.ProcessOptions{Kind: "group",
		New: groupStep(n, a.now), OnError: policy})
	a.width[n.ID] = a.partitions(n.KeyBy.Topic)
	a.b.KeyBy(id, rows, topology.KeyByOptions{OnError: policy,
		Key: func(r *operator.Record) ([]byte, error) { return r.Key, nil }})
}

// groupStep gives rows the key of their group; the one they have if there is no expression.
func groupStep(n *plan.Node, now func() time.Time) operator.Factory {
	return func() operator.Operator {
		if n.KeyBy.Key == nil {
			return operator.Regroup(func(r *operator.Record) ([]byte, error) { return r.Key, nil })()
		}
		v, mem := newView(n.Set, now), &arena{}
		return operator.Regroup(func(r *operator.Record) ([]byte, error) {
			key, isNull, err := n.KeyBy.Key.AppendKey(mem.tail(), v.at(r))
			v.note(r)
			switch {
			case err != nil:
				return nil, classify(err)
			case isNull: // it would be in no group, and nobody would know
				return nil, operator.WithClass(operator.ClassNullKey, operator.ErrNullKey)
			}
			return mem.keep(key), nil
		})()
	}
}

// joinTables joins two tables by key. The result is the left row with the right one in a private
// header, as of joinStreams.
func (a *assembly) joinTables(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	opts := join.TablesOptions{Kind: tablesKind(n.Join), Store: id, OnError: policy,
		Join:       pairWriter(expression.RowHeader(n.Join.As)),
		EncodeLeft: docEncoder(n.Value), EncodeRight: rowEncoder(n)}
	a.b.JoinTables(id, from, a.at[n.Right], opts)
}

func tablesKind(j *plan.Join) join.Kind {
	switch {
	case j.Tables.Outer:
		return join.Outer
	case j.Left:
		return join.Left
	}
	return join.Inner
}

// joinForeign joins two tables by a key that left rows name. It makes what the plan shows as parts
// of the join too.
func (a *assembly) joinForeign(n *plan.Node, id string, policy *operator.ErrorPolicy) {
	ask, match := a.plan.Node(n.ID+".ask"), a.plan.Node(n.ID+".match")
	right := match.Right
	if moved := a.plan.Node(right); moved != nil && moved.ID == n.ID+".right" {
		right = moved.From[0]
	}
	views := newViewPool(ask.Set, a.now)
	opts := join.ForeignOptions{Kind: tablesKind(n.Join), Store: id, OnError: policy,
		Join:       pairWriter(expression.RowHeader(n.Join.As)),
		EncodeLeft: docEncoder(n.Value), EncodeRight: rowEncoder(n),
		ForeignKey: func(r *operator.Record) ([]byte, error) {
			v := views.get()
			defer views.put(v)
			key, isNull, err := ask.Foreign.Key.AppendKey(nil, v.at(r))
			v.note(r)
			if err != nil || isNull {
				return nil, classify(err)
			}
			return key, nil
		}}
	a.b.JoinForeign(id, a.at[ask.From[0]], a.at[right], opts)
}

// inForeign tells whether a node is made by joinForeign.
func inForeign(n *plan.Node) bool {
	return n.Foreign != nil || n.KeyBy != nil && n.OverTable && !n.KeyBy.Group
}

// filterRowsStep and valueRowsStep are filterStep and valueStep over the changes of a table.
func filterRowsStep(
	set *expression.Set, when *expression.Program, now func() time.Time,
) operator.Factory {
	return func() operator.Operator {
		v := newView(set, now)
		return operator.FilterRows(func(r *operator.Record) (bool, error) {
			keep, err := when.Bool(v.at(r))
			v.note(r)
			return keep, classify(err)
		})()
	}
}

func valueRowsStep(
	set *expression.Set, now func() time.Time,
	appendTo func([]byte, *expression.Env) ([]byte, error),
) operator.Factory {
	return func() operator.Operator {
		v, mem := newView(set, now), &arena{}
		return operator.MapRows(func(r *operator.Record) error {
			value, err := appendTo(mem.tail(), v.at(r))
			if err != nil {
				return classify(err)
			}
			setValue(r, mem.keep(value))
			return nil
		})()
	}
}
