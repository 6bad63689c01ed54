package runner

import (
	"slices"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
)

// joinStreams joins two streams. The result is the left record, with the value of the right one in
// a private header, where expressions find it.
func (a *assembly) joinStreams(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	s := n.Join.Streams
	opts := join.StreamOptions{Before: s.Before, After: s.After, Grace: s.Grace, Store: id,
		Join: pairWriter(expression.RowHeader(n.Join.As)), OnError: policy,
		Late: a.late(s.Late, s.LateTopic), EncodeRight: rowEncoder(n)}
	switch {
	case s.Outer:
		opts.Kind = join.Outer
	case n.Join.Left:
		opts.Kind = join.Left
	}
	a.b.JoinStreams(id, from, a.at[n.Right], opts)
}

// pairWriter makes one record of two: value and headers of the left one, with the value of the
// right one in a header. Where a side is missing its value is null.
func pairWriter(header string) func(out, left, right *operator.Record) error {
	return func(out, left, right *operator.Record) error {
		var row []byte
		if right != nil {
			row = right.Value
		}
		if left == nil {
			setValue(out, []byte("null"))
			out.Headers = []record.Header{{Key: header, Value: row}}
			return nil
		}
		out.Value, out.Doc, out.Window = left.Value, left.Doc, left.Window
		out.Headers = append(slices.DeleteFunc(slices.Clone(left.Headers),
			func(h record.Header) bool { return h.Key == header }),
			record.Header{Key: header, Value: row})
		return nil
	}
}

// rowEncoder is docEncoder for the values that become rows of a join.
func rowEncoder(n *plan.Node) operator.EncodeFunc {
	for _, row := range n.Rows {
		if row.Name == n.Join.As {
			return docEncoder(row.Doc)
		}
	}
	return nil
}

// docEncoder checks values that are kept once, so that expressions need not do it each time they
// are read.
func docEncoder(doc expression.Doc) operator.EncodeFunc {
	if doc.Format != expression.FormatJSON {
		return nil
	}
	return func(r *operator.Record) (key, value []byte, err error) {
		if _, valid := r.Doc.(validated); !valid {
			if err := expression.Valid(r.Value); err != nil {
				return nil, nil, operator.WithClass(classDecode, err)
			}
		}
		return r.Key, r.Value, nil
	}
}

// joinAsOf joins a stream with a table whose rows come in the order of event time.
func (a *assembly) joinAsOf(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	j := n.Join.AsOf
	header := expression.RowHeader(n.Join.As)
	opts := join.TableOptions{Kind: joinKind(n.Join), History: j.History, Grace: j.Grace, Store: id,
		OnError: policy, EncodeRight: rowEncoder(n), Late: a.late(j.Late, j.LateTopic),
		Join: func(rec, row *operator.Record) error {
			var value []byte
			if row != nil {
				value = row.Value
			}
			rec.Headers = appendRow(make([]record.Header, 0, len(rec.Headers)+1), rec, header, value)
			return nil
		}}
	if j.IgnoreOld {
		opts.OutOfOrder = join.Ignore
	}
	if n.Join.MissingDLQ {
		opts.OnError = withAction(policy, join.ClassNoMatch, operator.ToDeadLetter)
	}
	a.b.JoinTable(id, from, a.at[n.Right], opts)
}
