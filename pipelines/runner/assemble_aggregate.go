package runner

import (
	"bytes"
	"slices"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/gate"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
	"github.com/millstream-io/millstream/streams/window"
)

// aggregate folds records per key and window.
func (a *assembly) aggregate(
	n *plan.Node, id, from string, policy *operator.ErrorPolicy,
) error {
	opts := a.aggregateOptions(n, policy)
	if err := opts.Validate(); err != nil {
		return err
	}
	factory := func() operator.Operator {
		mine := opts
		mine.Fields = a.foldFields(n)
		return aggregate.New(mine)()
	}
	all := id
	if a.shadow != nil {
		all += ":all"
	}
	a.b.Process(all, []string{from}, topology.ProcessOptions{Kind: string(n.Kind), New: factory,
		Stores: opts.Stores(), Late: opts.Late, OnError: policy})
	if a.shadow != nil {
		a.b.Filter(id, all, a.shadow.complete(n.Aggregate))
	}
	return nil
}

func (a *assembly) aggregateOptions(
	n *plan.Node, policy *operator.ErrorPolicy,
) aggregate.Options {
	agg := n.Aggregate
	opts := aggregate.Options{
		Windows: windowsOf(agg), Store: n.StreamID(), OnError: policy, Grace: agg.Grace,
		Late: a.late(agg.Late, agg.LateTopic), Lateness: agg.Lateness, Forget: agg.TTL,
		SkipUnchanged: agg.SkipUnchanged, Table: n.OverTable, Fields: a.foldFields(n),
		Result: foldResult(agg),
	}
	switch agg.Emit {
	case "on_close":
		opts.Emit = aggregate.OnClose
	case plan.EmitEvery:
		opts.Emit, opts.Every = aggregate.Every, agg.EmitEvery
	}
	return opts
}

func windowsOf(agg *plan.Aggregate) window.Windows {
	switch agg.Window {
	case plan.Session:
		return window.Sessions(agg.Size)
	case plan.Sliding:
		return window.SlidingBy(agg.Size)
	case plan.CountOf:
		return window.Counted(agg.Count)
	}
	return window.Windows{Size: agg.Size.Milliseconds(), Advance: agg.Every.Milliseconds(),
		Offset: agg.Offset.Milliseconds()}
}

// folds are the aggregators of the language that work on numbers, and those on any value.
var (
	numberFolds = map[string]aggregate.Func{"count": aggregate.Count, "sum": aggregate.Sum,
		"min": aggregate.Min, "max": aggregate.Max, "avg": aggregate.Avg,
		"stddev": aggregate.StdDev, "topk": aggregate.TopK, "p50": aggregate.Quantile,
		"p95": aggregate.Quantile, "p99": aggregate.Quantile}
	valueFolds = map[string]aggregate.Func{"first": aggregate.First, "last": aggregate.Last,
		"distinct": aggregate.Distinct, "approx_distinct": aggregate.ApproxDistinct,
		"collect": aggregate.Collect}
	perMille = map[string]int{"p50": 500, "p95": 950, "p99": 990}
)

// foldFields makes the fields of one task.
func (a *assembly) foldFields(n *plan.Node) []aggregate.Field {
	if r := n.Aggregate.Reduce; r != nil {
		return []aggregate.Field{{Name: "value", Func: aggregate.Reduce, Reducer: a.reducer(n)}}
	}
	var fields []aggregate.Field
	v := newView(n.Set, a.now)
	for _, f := range n.Aggregate.Fields {
		field := aggregate.Field{Name: f.Name, Limit: f.Limit, ByOffset: f.ByOffset,
			PerMille: perMille[f.Func]}
		var ok bool
		if field.Func, ok = valueFolds[f.Func]; ok {
			field.Value = anyValue(f.Arg, v)
		} else if field.Func = numberFolds[f.Func]; f.Arg != nil {
			field.Value = numberValue(f.Arg, v)
		}
		if f.Of != nil {
			field.Of = anyValue(f.Of, v)
		}
		fields = append(fields, field)
	}
	return fields
}

// numberValue takes a number from a record.
func numberValue(
	arg *expression.Program, v *view,
) func(*operator.Record) (aggregate.Value, error) {
	return func(r *operator.Record) (aggregate.Value, error) {
		num, err := arg.Number(v.at(r))
		v.note(r)
		switch {
		case err != nil:
			return aggregate.Value{}, classify(err)
		case num.Null:
			return aggregate.Value{}, nil
		case num.IsFloat:
			return aggregate.FloatValue(num.Float), nil
		}
		return aggregate.IntValue(num.Int), nil
	}
}

// anyValue takes any JSON value from a record.
func anyValue(arg *expression.Program, v *view) func(*operator.Record) (aggregate.Value, error) {
	var buf []byte
	return func(r *operator.Record) (aggregate.Value, error) {
		var err error
		if buf, err = arg.AppendJSON(buf[:0], v.at(r)); err != nil {
			return aggregate.Value{}, classify(err)
		}
		v.note(r)
		return aggregate.JSONValue(buf)
	}
}

// reducer folds by expressions. What was folded so far is a joined row called acc.
func (a *assembly) reducer(n *plan.Node) *aggregate.Reducer {
	r, v := n.Aggregate.Reduce, newView(n.Set, a.now)
	run := func(p *expression.Program, v *view, rec *operator.Record, rows ...record.Header,
	) ([]byte, error) {
		with := *rec
		with.Headers = append(slices.Clip(rec.Headers), rows...)
		out, err := p.AppendJSON(nil, v.at(&with))
		if err != nil {
			return nil, classify(err)
		}
		return out, nil
	}
	row := func(name string, value []byte) record.Header {
		return record.Header{Key: expression.RowHeader(name), Value: value}
	}
	null := []byte("null")
	out := &aggregate.Reducer{Update: func(acc []byte, rec *operator.Record) ([]byte, error) {
		var err error
		if acc == nil {
			if acc, err = run(r.Init, v, rec, row("acc", null)); err != nil {
				return nil, err
			}
		}
		acc, err = run(r.Update, v, rec, row("acc", acc))
		v.note(rec)
		if err != nil || bytes.Equal(acc, null) {
			return nil, err
		}
		return acc, nil
	}}
	if r.Merge == nil {
		return out
	}
	merging := newView(r.MergeSet, a.now)
	out.Merge = func(x, y []byte) ([]byte, error) {
		return run(r.Merge, merging, &operator.Record{}, row("acc", x), row("other", y))
	}
	return out
}

// foldResult writes the fields, and only them, as the value; the window is in the record and
// expressions see it as window.start and window.end. A reduce has one field, which is the value.
func foldResult(agg *plan.Aggregate) func(*operator.Record, []aggregate.Value) error {
	if agg.Reduce != nil {
		return func(r *operator.Record, values []aggregate.Value) error {
			setValue(r, values[0].AppendJSON(nil))
			return nil
		}
	}
	var names [][]byte
	for _, f := range agg.Fields {
		names = append(names, append(aggregate.StringValue(f.Name).AppendJSON(nil), ':'))
	}
	return func(r *operator.Record, values []aggregate.Value) error {
		value := make([]byte, 0, 32*len(values))
		value = append(value, '{')
		for i, v := range values {
			if i > 0 {
				value = append(value, ',')
			}
			value = v.AppendJSON(append(value, names[i]...))
		}
		setValue(r, append(value, '}'))
		return nil
	}
}

// gate holds records back: duplicates, or those above a rate.
func (a *assembly) gate(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	g := n.Gate
	if n.Kind == plan.KindDedupe {
		a.b.Dedupe(id, from, gate.DedupeOptions{Within: g.Within, Store: n.StreamID(),
			OnError: policy})
		return
	}
	opts := gate.ThrottleOptions{Count: g.Count, Per: g.Within, Store: n.StreamID(),
		OnError: policy}
	if g.Keyed {
		opts.Key = gate.ByKey
	}
	if g.ToDLQ {
		opts.Fail = true
		opts.OnError = withAction(policy, gate.ClassThrottled, operator.ToDeadLetter)
	}
	a.b.Throttle(id, from, opts)
}
