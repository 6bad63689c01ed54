package streamstest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/gate"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/window"
)

// windowsOf returns the windows a case asks for; size keeps an advance that was named before.
func windowsOf(kind string, size time.Duration, w window.Windows) window.Windows {
	switch kind {
	case "session":
		return window.Sessions(size)
	case "sliding":
		return window.SlidingBy(size)
	case "count":
		return window.Counted(size.Milliseconds())
	}
	w.Size = size.Milliseconds()
	if w.Advance == 0 {
		w.Advance = w.Size
	}
	return w
}

// fieldsOf returns the aggregates of a case over the record's value.
func fieldsOf(t *testing.T, names []string) (list []aggregate.Field) {
	for _, name := range names {
		list = append(list, fieldOf(t, name))
	}
	return list
}

// fieldOf returns one of them. A name may carry a number (topk2, collect3, p50) or -offset.
func fieldOf(t *testing.T, name string) aggregate.Field {
	f := aggregate.Field{Name: name, Value: valueOf, Limit: 100}
	name, f.ByOffset = strings.CutSuffix(name, "-offset")
	word := strings.TrimRight(name, "0123456789")
	if n, err := strconv.Atoi(name[len(word):]); err == nil {
		f.Limit, f.PerMille = n, n*10
	}
	switch word {
	case "p":
		word = "quantile"
	case "topk":
		f.Of = func(rec *operator.Record) (aggregate.Value, error) {
			_, shown, _ := strings.Cut(string(rec.Value), ":")
			return aggregate.StringValue(shown), nil
		}
	case "reduce": // the values one after the other; "stop" forgets them
		f.Reducer = &aggregate.Reducer{Update: concat, Merge: func(a, b []byte) ([]byte, error) {
			return append(slices.Clone(a[:len(a)-1]), b[1:]...), nil
		}}
	}
	texts := []string{"first", "last", "distinct", "approx_distinct", "collect"}
	if slices.Contains(texts, word) {
		f.Value = func(rec *operator.Record) (aggregate.Value, error) {
			return aggregate.StringValue(string(rec.Value)), nil
		}
	}
	for f.Func = aggregate.Count; f.Func <= aggregate.Reduce; f.Func++ {
		if f.Func.String() == word {
			return f
		}
	}
	t.Fatalf("unknown aggregate %q", name)
	return f
}

func concat(acc []byte, rec *operator.Record) ([]byte, error) {
	switch {
	case string(rec.Value) == "stop":
		return nil, nil
	case acc == nil:
		return fmt.Appendf(nil, "%q", rec.Value), nil
	}
	return fmt.Appendf(slices.Clone(acc[:len(acc)-1]), "%s\"", rec.Value), nil
}

// valueOf is the integer in a record's value, before a colon or behind a comma; null for others.
func valueOf(rec *operator.Record) (aggregate.Value, error) {
	text, _, _ := strings.Cut(string(rec.Value), ":")
	if _, behind, ok := strings.Cut(text, ","); ok {
		text = behind
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return aggregate.Value{}, nil
	}
	return aggregate.IntValue(n), nil
}

// showResult makes the value of a result what the golden files show.
func showResult(rec *operator.Record, values []aggregate.Value) error {
	var shown []string
	for _, v := range values {
		shown = append(shown, strings.ReplaceAll(string(v.AppendJSON(nil)), "\"", ""))
	}
	rec.SetValue(fmt.Appendf(nil, "%s=%s@%d", showKey(rec), strings.Join(shown, ";"),
		rec.Timestamp))
	return nil
}

func showKey(rec *operator.Record) string {
	if rec.Windowed() {
		return rec.Window.String() + " " + string(rec.Key)
	}
	return string(rec.Key)
}

// validate checks the options of the case's step.
func (s *setup) validate() error {
	switch {
	case s.dedupe.Within > 0:
		return s.dedupe.Validate()
	case s.throttle.Count > 0:
		return s.throttle.Validate()
	case s.punctuate > 0:
		return nil
	}
	return s.aggregate.Validate()
}

// stores are those of the case's step.
func (s *setup) stores() []operator.StoreSpec {
	switch {
	case s.dedupe.Within > 0:
		return s.dedupe.Stores()
	case s.throttle.Count > 0:
		return s.throttle.Stores()
	case s.punctuate > 0:
		return nil
	}
	return append(s.aggregate.Stores(), operator.StoreSpec{Name: "table"})
}

// byValue makes records with equal values the same.
func byValue(rec *operator.Record) ([]byte, error) { return rec.Value, nil }

// fire shows when a punctuation comes.
func fire(_ *operator.Context, at int64, emit func(operator.Record)) error {
	emit(operator.Record{Key: []byte("k"), Value: fmt.Appendf(nil, "fire %d", at), Timestamp: at})
	return nil
}

// steps makes the operator of a case: what turns a topic into changes of a table, grouped by what
// is before the comma, the aggregate, and what shows results that are taken back.
func (s *setup) steps() operator.Operator {
	switch {
	case s.dedupe.Within > 0:
		return gate.Dedupe(s.dedupe)()
	case s.throttle.Count > 0:
		return gate.Throttle(s.throttle)()
	case s.punctuate > 0:
		return operator.Punctuate(s.punctuate, fire)()
	}
	list := []operator.Operator{aggregate.New(s.aggregate)(),
		operator.Map(func(rec *operator.Record) error {
			if rec.TakesBack() {
				rec.SetValue([]byte("†" + showKey(rec)))
			}
			return nil
		})()}
	if s.aggregate.Table {
		list = slices.Insert(list, 0, operator.Operator(operator.Func(latest)),
			operator.Regroup(func(rec *operator.Record) ([]byte, error) {
				group, _, _ := strings.Cut(string(rec.Value), ",")
				if group == "null" {
					return nil, nil
				}
				return []byte(group), nil
			})())
	}
	return operator.Func(func(ctx *operator.Context, in, out *operator.Batch) error {
		for i, op := range list {
			next := &operator.Batch{}
			if i == len(list)-1 {
				next = out
			}
			if err := op.Process(ctx, in, next); err != nil {
				return err
			}
			next.StreamTime, next.Steps = in.StreamTime, in.Steps
			in = next
		}
		return nil
	})
}

// latest keeps the last value of every key and gives changes.
func latest(ctx *operator.Context, in, out *operator.Batch) error {
	rows := ctx.Store("table")
	for _, rec := range in.Records {
		row, ok, err := rows.Get(rec.Key)
		if err != nil {
			return err
		}
		if ok {
			old := rec
			old.SetValue(slices.Clone(row))
			rec.Old = &old
		}
		if rec.Value == nil {
			err = rows.Delete(rec.Key)
		} else {
			err = rows.Put(rec.Key, rec.Value)
		}
		if err != nil {
			return err
		}
		out.Append(&rec)
	}
	return nil
}

func TestGoldenFieldsAreKnown(t *testing.T) {
	require.Equal(t, 2, fieldOf(t, "topk2").Limit)
	require.Equal(t, 950, fieldOf(t, "p95").PerMille)
}
