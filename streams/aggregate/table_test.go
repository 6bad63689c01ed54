package aggregate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/operator"
)

// tableRow is a row of the model: a table of key -> row.
type tableRow struct {
	group string
	moment
}

// tableModel computes a group from the rows the table holds.
func tableModel(rows map[string]tableRow, group string) string {
	var list []moment
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if r := rows[key]; r.group == group {
			list = append(list, r.moment)
		}
	}
	if len(list) == 0 {
		return ""
	}
	// Rows of one time have the order of their values: a table has no other.
	slices.SortStableFunc(list, func(a, b moment) int {
		return strings.Compare(identity(a.val), identity(b.val))
	})
	want := plain(list)
	last := list[0]
	for _, r := range list { // of the last ones the largest
		if r.ts >= last.ts {
			last = r
		}
	}
	_, behind, _ := strings.Cut(want, `,"distinct":`)
	before, _, _ := strings.Cut(want, `,"last":`)
	return fmt.Sprintf(`%s,"last":%d,"distinct":%s`, before, last.val, behind)
}

// identity sorts as 8 bytes of a number do.
func identity(v int64) string { return fmt.Sprintf("%020d", uint64(v)) }

// TestRuleB19_TableAggregatesAgreeWithAModel compares groups with what the table holds, after any
// history of puts, moves and deletes, with restarts.
func TestRuleB19_TableAggregatesAgreeWithAModel(t *testing.T) {
	fields := slices.DeleteFunc(manyFields(), func(f aggregate.Field) bool {
		return f.Func == aggregate.ApproxDistinct
	})
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t, aggregate.Options{Table: true, Fields: fields})
		regroup := operator.Regroup(func(r *operator.Record) ([]byte, error) {
			return r.Headers[0].Value, nil
		})()
		rows, shown := map[string]tableRow{}, map[string]string{}
		for i := range rapid.IntRange(1, 50).Draw(t, "changes") {
			key := rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5"}).Draw(t, "key")
			old, had := rows[key]
			next := tableRow{rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"),
				moment{key, rapid.Int64Range(0, 6).Draw(t, "ts"),
					rapid.Int64Range(-3, 3).Draw(t, "value")}}
			rec := operator.Record{Key: []byte(key), StreamTime: int64(i), Order: int64(2*i + 1),
				Timestamp: next.ts}
			if had {
				rec.Old = rowRecord(old)
			}
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				delete(rows, key)
			} else {
				rows[key] = next
				r := rowRecord(next)
				rec.Value, rec.Headers = r.Value, r.Headers
			}
			var changes operator.Batch
			require.NoError(t, regroup.Process(b.ctx,
				&operator.Batch{Records: []operator.Record{rec}}, &changes))
			require.LessOrEqual(t, len(changes.Records), 2)
			if had && rec.Value != nil && old.group == next.group {
				require.Len(t, changes.Records, 1, "one change in the same group")
			}
			for _, r := range changes.Records {
				for _, line := range b.process(&operator.Batch{Records: []operator.Record{r}}) {
					group, rest, _ := strings.Cut(line, "=")
					rest, _, _ = strings.Cut(rest, "@")
					shown[strings.TrimPrefix(group, "[0,0)")] = rest
				}
			}
			for _, g := range []string{"g", "h"} {
				want := tableModel(rows, g)
				if want == "" { // counts and sums of nothing
					require.True(t, shown[g] == "" || strings.HasPrefix(shown[g], `0,"sum":0,"min":null`))
					continue
				}
				require.Equal(t, strings.Replace(want, approx(want), "", 1), shown[g])
			}
			if rapid.Bool().Draw(t, "restart") {
				b.restart()
			}
		}
	})
}

// TestRuleB19_RowsOfOneTimeHaveTwoEnds: of rows with the same time first and last are the smallest
// and the largest by bytes, and a text is smaller than one that goes on behind it.
func TestRuleB19_RowsOfOneTimeHaveTwoEnds(t *testing.T) {
	f := func(name string, fn aggregate.Func) aggregate.Field {
		return aggregate.Field{Name: name, Func: fn, Value: number}
	}
	b := newBench(t, aggregate.Options{Table: true, Fields: []aggregate.Field{{Name: "n"},
		f("f", aggregate.First), f("l", aggregate.Last)}})
	change := func(old, next string) string {
		rec := operator.Record{Key: []byte("g"), Order: 1}
		if old != "" {
			rec.Old = &operator.Record{Key: []byte("g"), Value: []byte(old)}
		}
		if next != "" {
			rec.Value = []byte(next)
		}
		got := b.process(&operator.Batch{Records: []operator.Record{rec}})
		require.Len(t, got, 1)
		return got[0][strings.Index(got[0], `"f":`):]
	}
	for _, c := range [][3]string{
		{"", `"ab"`, `"f":"ab","l":"ab"}@0`},
		{"", `"abc"`, `"f":"ab","l":"abc"}@0`},
		{"", `"ab\u0000"`, `"f":"ab","l":"abc"}@0`},
		{"", `"a"`, `"f":"a","l":"abc"}@0`},
		{`"abc"`, "", `"f":"a","l":"ab\u0000"}@0`},
		{`"ab\u0000"`, "", `"f":"a","l":"ab"}@0`},
		{`"a"`, "", `"f":"ab","l":"ab"}@0`},
		{`"ab"`, "", `"f":null,"l":null}@0`},
	} {
		require.Equal(t, c[2], change(c[0], c[1]), "%s to %s", c[0], c[1])
		b.restart()
	}
}

// approx is the part of the model that tables do not have.
func approx(text string) string {
	_, rest, _ := strings.Cut(text, `,"approx":`)
	n, _, _ := strings.Cut(rest, ",")
	return `,"approx":` + n
}

func rowRecord(r tableRow) *operator.Record {
	rec := &operator.Record{Key: []byte(r.key), Timestamp: r.ts, Value: fmt.Appendf(nil, "%d", r.val)}
	rec.Headers = []record.Header{{Key: "group", Value: []byte(r.group)}}
	return rec
}
