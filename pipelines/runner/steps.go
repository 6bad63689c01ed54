package runner

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/operator"
)

// Every factory here makes one view per task, because an expression.Env belongs to one goroutine.

// filterStep keeps records for which the condition holds.
func filterStep(
	set *expression.Set, when *expression.Program, now func() time.Time,
) operator.Factory {
	return func() operator.Operator {
		v := newView(set, now)
		return operator.Filter(func(r *operator.Record) (bool, error) {
			if r.TakesBack() {
				return wasKept(r, when, v), nil
			}
			keep, err := when.Bool(v.at(r))
			v.note(r)
			return keep, classify(err)
		})()
	}
}

// wasKept tells whether a result that is gone passed a filter. Where that cannot be told it did:
// that it is gone is for everybody who may know it.
func wasKept(r *operator.Record, when *expression.Program, v *view) bool {
	if r.Old.IsNull() {
		return true
	}
	kept, err := when.Bool(v.at(before(r)))
	return kept || err != nil
}

// before is the result that a record takes back, in its window.
func before(r *operator.Record) *operator.Record {
	old := *r.Old
	old.Key, old.Window = r.Key, r.Window
	return &old
}

// valueStepOf is how a node that makes new values runs: over a stream or over a table.
func valueStepOf(n *plan.Node) func(*expression.Set, func() time.Time,
	func([]byte, *expression.Env) ([]byte, error)) operator.Factory {
	if n.OverTable {
		return valueRowsStep
	}
	return valueStep
}

// valueStep replaces the value by what appendTo makes of the record.
func valueStep(
	set *expression.Set, now func() time.Time,
	appendTo func([]byte, *expression.Env) ([]byte, error),
) operator.Factory {
	return func() operator.Operator {
		v, mem := newView(set, now), &arena{}
		return operator.Map(func(r *operator.Record) error {
			to := r
			if r.TakesBack() {
				if r.Old.IsNull() {
					return nil
				}
				to = before(r)
				r.Old = to
			}
			value, err := appendTo(mem.tail(), v.at(to))
			switch {
			case err != nil && to != r:
				to.SetValue(nil) // it failed then, too
				return nil
			case err != nil:
				return classify(err)
			}
			setValue(to, mem.keep(value))
			return nil
		})()
	}
}

// flatMapStep replaces a record by one per item of a list.
func flatMapStep(
	set *expression.Set, items *expression.Program, now func() time.Time,
) operator.Factory {
	return func() operator.Operator {
		v, mem := newView(set, now), &arena{}
		return operator.FlatMap(func(r *operator.Record, emit func(operator.Record)) error {
			if r.TakesBack() {
				emit(*r)
				return nil
			}
			err := items.Items(v.at(r), func(item []byte) error {
				out := *r
				setValue(&out, mem.keep(append(mem.tail(), item...)))
				emit(out)
				return nil
			})
			return classify(err)
		})()
	}
}

// keyStep sets the key; moving the record to its task is left to the repartition behind it. Joined
// rows that nobody reads further down are left behind.
func keyStep(n *plan.Node, null operator.NullKey, now func() time.Time) operator.Factory {
	return func() operator.Operator {
		v, mem := newView(n.Set, now), &arena{}
		return operator.SelectKey(func(r *operator.Record) ([]byte, error) {
			look := r
			if r.TakesBack() && !r.Old.IsNull() {
				look = before(r) // it goes where the result went
			}
			k, isNull, err := n.KeyBy.Key.AppendKey(mem.tail(), v.at(look))
			v.note(look)
			if err != nil {
				return nil, classify(err)
			}
			if r.Headers = carriedHeaders(r.Headers, n.Carry); isNull {
				return nil, nil
			}
			return mem.keep(k), nil
		}, null)()
	}
}

// branchStep sends records to the first arm whose condition holds.
func branchStep(n *plan.Node, now func() time.Time) operator.Factory {
	return func() operator.Operator {
		v := newView(n.Set, now)
		cases := make([]operator.Case, len(n.Arms))
		for i, arm := range n.Arms {
			cases[i].Name = arm.ID
			if arm.When == nil {
				continue
			}
			cases[i].When = func(r *operator.Record) (bool, error) {
				if r.TakesBack() {
					return wasKept(r, arm.When, v), nil
				}
				ok, err := arm.When.Bool(v.at(r))
				v.note(r)
				return ok, classify(err)
			}
		}
		return operator.Branch(cases)()
	}
}

// logStep writes a line per record to the pipeline's log and passes the record on.
func logStep(
	set *expression.Set, line *expression.Template, id string, log *slog.Logger,
	now func() time.Time,
) operator.Factory {
	return func() operator.Operator {
		v := newView(set, now)
		var buf []byte
		return operator.Map(func(r *operator.Record) error {
			if r.TakesBack() {
				return nil // there is nothing to look at
			}
			var err error
			if buf, err = line.Append(buf[:0], v.at(r)); err != nil {
				return classify(err)
			}
			v.note(r)
			log.Info(string(buf), "step", id)
			return nil
		})()
	}
}

// outputStep makes key and value as a sink writes them and strips what is private to the pipeline.
func outputStep(s *plan.Sink, now func() time.Time) operator.Factory {
	return func() operator.Operator {
		v, mem := newView(s.Set, now), &arena{}
		return operator.Map(func(r *operator.Record) error {
			if s.Key == nil && s.Value == nil && !s.Text {
				r.SetValue(r.Value)
				r.Headers = publicHeaders(r.Headers)
				return nil
			}
			env := v.at(r)
			key, value := r.Key, r.Value
			if s.Key != nil {
				k, isNull, err := s.Key.AppendKey(mem.tail(), env)
				if err != nil {
					return classify(err)
				}
				if key = nil; !isNull {
					key = mem.keep(k)
				}
			}
			if s.Value != nil && !r.TakesBack() {
				data, err := s.Value.AppendJSON(mem.tail(), env)
				if err != nil {
					return classify(err)
				}
				value = mem.keep(data)
			}
			if s.Text {
				value = asText(value)
			}
			r.Key = key
			if value == nil {
				r.SetValue(nil)
			} else {
				setValue(r, value)
			}
			r.Headers = publicHeaders(r.Headers)
			return nil
		})()
	}
}

// asText gives a JSON string without quotes and escapes; other values stay JSON.
func asText(value []byte) []byte {
	var text string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return value
	}
	return []byte(text)
}

// publicHeaders leaves out the headers that only this pipeline's steps understand.
func publicHeaders(headers []record.Header) []record.Header {
	return keepHeaders(headers, func(h record.Header) bool {
		return !expression.IsPrivateHeader(h.Key)
	})
}

// carriedHeaders leaves out the joined rows that are not among carry.
func carriedHeaders(headers []record.Header, carry []string) []record.Header {
	return keepHeaders(headers, func(h record.Header) bool {
		return !expression.IsPrivateHeader(h.Key) || h.Key == expression.WindowHeader ||
			slices.ContainsFunc(carry, func(row string) bool {
				return h.Key == expression.RowHeader(row)
			})
	})
}

// keepHeaders filters headers; they are copied only if one has to go, because records share them.
func keepHeaders(headers []record.Header, keep func(record.Header) bool) []record.Header {
	for i, h := range headers {
		if keep(h) {
			continue
		}
		kept := append([]record.Header(nil), headers[:i]...)
		for _, h := range headers[i+1:] {
			if keep(h) {
				kept = append(kept, h)
			}
		}
		return kept
	}
	return headers
}
