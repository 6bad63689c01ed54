package runner

import (
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// join looks records up in a table. The row's bytes travel in a private header, where expressions
// find them (expression.RowHeader).
func (a *assembly) join(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	if n.Join.Streams != nil {
		a.joinStreams(n, id, from, policy)
		return
	}
	switch {
	case n.Join.AsOf != nil:
		a.joinAsOf(n, id, from, policy)
		return
	case n.Join.Tables != nil && n.Join.Tables.Foreign:
		a.joinForeign(n, id, policy)
		return
	case n.Join.Tables != nil:
		a.joinTables(n, id, from, policy)
		return
	}
	table := a.plan.Table(n.Join.Table)
	store := table.StreamID() + ":table"
	if a.at[store] == "" {
		a.at[store] = store
		a.b.Table(store, table.Topic, topology.TableOptions{
			// Tasks may share rows by key only where stream and table are cut alike.
			Broadcast: table.Global || a.partitions(table.Topic) != a.width[n.ID],
			Decode:    rowDecoder(table),
		})
	}
	opts := join.Options{Kind: joinKind(n.Join), OnError: policy, Transient: true,
		Bytes: rowWriter(expression.RowHeader(n.Join.As))}
	if n.Join.MissingDLQ {
		opts.OnError = withAction(policy, join.ClassNoMatch, operator.ToDeadLetter)
	}
	if n.Join.Key != nil {
		views := newViewPool(n.Set, a.now)
		opts.Key = func(r *operator.Record) ([]byte, error) {
			v := views.get()
			defer views.put(v)
			key, isNull, err := n.Join.Key.AppendKey(nil, v.at(r))
			v.note(r)
			if err != nil || isNull {
				return nil, classify(err)
			}
			return key, nil
		}
	}
	a.b.Join(id, from, store, opts)
}

func joinKind(j *plan.Join) join.Kind {
	switch {
	case j.Left:
		return join.Left
	case j.MissingDLQ:
		return join.Required
	default:
		return join.Inner
	}
}

// withAction is a policy with the action of one class replaced.
func withAction(
	p *operator.ErrorPolicy, class string, action operator.Action,
) *operator.ErrorPolicy {
	out := *p
	out.ByClass = map[string]operator.Action{class: action}
	for c, a := range p.ByClass {
		if c != class {
			out.ByClass[c] = a
		}
	}
	return &out
}

// rowDecoder checks a table's row once, so that expressions need not do it for every record.
func rowDecoder(t *plan.Table) func(key, value []byte) (any, error) {
	if t.Value.Format != expression.FormatJSON {
		return nil
	}
	return func(_, value []byte) (any, error) {
		if err := expression.Valid(value); err != nil {
			return nil, operator.WithClass(classDecode, err)
		}
		return value, nil
	}
}

// rowWriter makes, for each task, the function that puts a row into the header that expressions
// look at.
func rowWriter(header string) func() func(*operator.Record, []byte) error {
	return func() func(*operator.Record, []byte) error {
		var piece []record.Header // of which records have their headers, each once
		return func(r *operator.Record, row []byte) error {
			if cap(piece)-len(piece) <= len(r.Headers) {
				piece = make([]record.Header, 0, max(rowHeaders, len(r.Headers)+1))
			}
			start := len(piece)
			piece = appendRow(piece, r, header, row)
			r.Headers = piece[start:len(piece):len(piece)]
			return nil
		}
	}
}

// appendRow appends the headers of a record with the row in the one that expressions look at.
func appendRow(dst []record.Header, r *operator.Record, header string, row []byte) []record.Header {
	for _, h := range r.Headers {
		if h.Key != header {
			dst = append(dst, h)
		}
	}
	return append(dst, record.Header{Key: header, Value: row})
}

// rowHeaders is how many headers are made at once.
const rowHeaders = 256

func (a *assembly) late(action, topic string) operator.LatePolicy {
	switch action {
	case "dlq":
		return operator.LatePolicy{Action: operator.LateDeadLetter}
	case "topic":
		return operator.LatePolicy{Action: operator.LateSide, Topic: a.topic(topic)}
	default:
		return operator.LatePolicy{Action: operator.LateDrop}
	}
}
