package runner

import (
	"strings"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/query"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/gate"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
)

var _ query.Source = (*Runner)(nil)

// Stores implements query.Source.
func (r *Runner) Stores(pipeline string) ([]query.Store, bool) {
	r.mu.Lock()
	in := r.mu.began[pipeline]
	r.mu.Unlock()
	if in == nil {
		return nil, false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.stores, true
}

// began notes the latest instance of a pipeline. It is kept when it ends: what a bounded pipeline
// has stored is looked at afterwards.
func (r *Runner) began(in *instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.began[in.app] = in
}

// stores lists what can be looked at of a topology.
func (a *assembly) stores(t *topology.Topology, w *task.Worker) []query.Store {
	var all []query.Store
	for _, sub := range t.Subs {
		parts := func() []*task.Part { return w.Parts(sub.Name) }
		for i := range sub.Tables {
			all = append(all, a.tableStore(&sub.Tables[i], sub.Name, parts))
		}
		for i := range sub.Nodes {
			for _, spec := range sub.Nodes[i].Stores {
				if s, ok := a.nodeStore(&sub.Nodes[i], spec); ok {
					s.Sub, s.Parts = sub.Name, parts
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// tableStore is the store of a table that is looked up. Of one that every task has, one is enough.
func (a *assembly) tableStore(
	t *topology.Table, sub string, parts func() []*task.Part,
) query.Store {
	id := strings.TrimSuffix(t.ID, ":table")
	s := query.Store{Node: id, Name: t.ID, Kind: "table", Sub: sub, Parts: parts,
		Reader: func() operator.RowReader { return tableRows{} }}
	for _, table := range a.plan.Tables {
		if table.StreamID() == id {
			s.Node, s.Key, s.Value = table.ID, table.Key.Format, table.Value.Format
		}
	}
	if t.Broadcast {
		s.Parts = func() []*task.Part {
			all := parts()
			for i, p := range all {
				if p.Here() && p.Fresh() {
					return all[i : i+1]
				}
			}
			return all[:min(1, len(all))]
		}
	}
	return s
}

// nodeStore is a store of a step; ok is false for those that say nothing to outsiders.
func (a *assembly) nodeStore(node *topology.Node, spec operator.StoreSpec) (query.Store, bool) {
	n := a.nodeOf(node.ID)
	if n == nil {
		return query.Store{}, false
	}
	s := query.Store{Node: n.ID, Name: spec.Name, Kind: string(n.Kind), Key: n.Key.Format,
		Value: expression.FormatJSON}
	if n.Table != nil {
		s.Node = n.UserID() // as the file calls it
	}
	if part, ok := strings.CutPrefix(spec.Name, n.StreamID()+"-"); ok {
		s.Part = part
	}
	if n.Aggregate != nil {
		opts := a.aggregateOptions(n, nil)
		if spec.Name != opts.Store {
			return query.Store{}, false
		}
		s.Reader = func() operator.RowReader {
			return aggregate.NewReader(a.aggregateOptions(n, nil))
		}
		return s, true
	}
	for _, reader := range []operator.RowReader{join.Reader(spec), gate.Reader(spec)} {
		if reader != nil {
			s.Reader = func() operator.RowReader { return reader }
			return s, true
		}
	}
	return query.Store{}, false
}

// nodeOf finds the step of the plan that a node of the topology belongs to: the one whose id is the
// longest beginning of the node's.
func (a *assembly) nodeOf(id string) *plan.Node {
	var found *plan.Node
	for _, n := range a.plan.Nodes {
		rest, ok := strings.CutPrefix(id, n.StreamID())
		if ok && (rest == "" || strings.ContainsAny(rest[:1], ":-")) &&
			(found == nil || len(found.StreamID()) < len(n.StreamID())) {
			found = n
		}
	}
	return found
}

// tableRows reads rows of a table that is looked up: value by key.
type tableRows struct{}

// Seek implements operator.RowReader.
func (tableRows) Seek(key []byte) []byte { return key }

// Read implements operator.RowReader.
func (tableRows) Read(row operator.StoredRow, fn func(operator.Kept) error) error {
	return fn(operator.Kept{Key: row.Key, Value: row.Value, Timestamp: operator.NoTime})
}
