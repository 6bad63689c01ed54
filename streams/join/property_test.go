package join_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
)

// event is one record as a step sees it. The models below are written from the rules alone.
type event struct {
	side int
	key  string
	ts   int64
	n    int  // which event: its value
	gone bool // no value
}

func (e event) value() string { return fmt.Sprint(e.n) }

// drawEvents makes records out of order by up to 15 ms, over 3 keys.
func drawEvents(t *rapid.T, tombstones bool) []event {
	var list []event
	now := int64(100)
	for n := range rapid.IntRange(1, 60).Draw(t, "events") {
		now += rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 6}).Draw(t, "step")
		e := event{side: rapid.IntRange(0, 1).Draw(t, "side"), n: n,
			key: rapid.SampledFrom([]string{"a", "a", "a", "b", "\x00"}).Draw(t, "key"),
			ts:  now - rapid.SampledFrom([]int64{0, 0, 1, 3, 4, 5, 9, 11, 12, 15}).Draw(t, "delay")}
		e.gone = tombstones && rapid.IntRange(0, 4).Draw(t, "gone") == 0
		list = append(list, e)
	}
	return list
}

// bench runs a step over batches cut at random; between batches it is made anew, as by a restart.
type bench struct {
	t     *rapid.T
	make  operator.Factory
	late  operator.LatePolicy
	lines []string
}

func (b *bench) DeadLetter(_ *operator.Record, d operator.DeadLetter) {
	b.lines = append(b.lines, "dlq "+d.Class)
}

func (b *bench) LateRecord(rec *operator.Record, _ string, _ operator.LateReport) {
	b.lines = append(b.lines, "late "+string(rec.Value))
}

// run returns what came out and was late. Late records are told apart by place only within their
// batch, so batches of one record are used where that matters.
func (b *bench) run(events []event) []string {
	stores := streamstest.NewStores()
	s := operator.NoTime
	op := b.make()
	ctx := b.context(stores, s)
	order := int64(1)
	for len(events) > 0 {
		n := rapid.IntRange(1, len(events)).Draw(b.t, "batch")
		if rapid.Bool().Draw(b.t, "single") {
			n = 1
		}
		var in, out operator.Batch
		for _, e := range events[:n] {
			if e.ts > s {
				s = e.ts
				in.Steps = append(in.Steps, operator.TimeStep{Time: s, Order: order - 1})
			}
			rec := operator.Record{Key: []byte(e.key), Value: []byte(e.value()), Timestamp: e.ts,
				StreamTime: s, Order: order, Input: int32(e.side)}
			if e.gone {
				rec.Value = nil
			}
			in.Records = append(in.Records, rec)
			order += 2
		}
		in.StreamTime = s
		events = events[n:]
		require.NoError(b.t, op.Process(ctx, &in, &out))
		require.True(b.t, slices.IsSortedFunc(out.Records, func(x, y operator.Record) int {
			return cmp.Or(cmp.Compare(x.Order, y.Order), cmp.Compare(x.StreamTime, y.StreamTime))
		}), "output is in the order of its causes")
		for i := range out.Records {
			r := &out.Records[i]
			line := fmt.Sprintf("%q %s @%d", r.Key, r.Value, r.Timestamp)
			if r.IsNull() {
				line = fmt.Sprintf("%q gone @%d", r.Key, r.Timestamp)
			}
			if r.Old != nil {
				line += " was " + string(r.Old.Value)
			}
			b.lines = append(b.lines, line)
		}
		if rapid.Bool().Draw(b.t, "restart") {
			op, ctx = b.make(), b.context(stores, s)
		}
	}
	return b.lines
}

func (b *bench) context(stores *streamstest.Stores, s int64) *operator.Context {
	return operator.NewContext(operator.ContextOptions{Step: "j", Stores: stores, Reporter: b,
		Late: b.late, StreamTime: s})
}

// results drops the lines of late records, which come out of the order of results.
func split(lines []string) (results, late []string) {
	for _, l := range lines {
		if len(l) > 4 && l[:4] == "late" {
			late = append(late, l)
		} else {
			results = append(results, l)
		}
	}
	return results, late
}

func pair(out, l, r *operator.Record) error {
	show := func(x *operator.Record) string {
		if x == nil {
			return "-"
		}
		return string(x.Value)
	}
	out.SetValue([]byte(show(l) + "+" + show(r)))
	return nil
}

var side = operator.LatePolicy{Action: operator.LateSide, Topic: "late"}

// streamModel is B11, B12 and D1 over all records there were.
func streamModel(events []event, o join.StreamOptions) (lines, late []string) {
	before, after := o.Before.Milliseconds(), o.After.Milliseconds()
	grace := o.Grace.Milliseconds()
	end := func(e event) int64 { // the last S at which e is open
		if e.side == 0 {
			return e.ts + after + grace
		}
		return e.ts + before + grace
	}
	keeps := []bool{o.Kind != join.Inner, o.Kind == join.Outer}
	s := operator.NoTime
	var kept []event
	matched, out := map[int]bool{}, map[int]bool{}
	for _, e := range events {
		s = max(s, e.ts)
		var due []event
		for _, k := range kept {
			if s > end(k) && keeps[k.side] && !matched[k.n] && !out[k.n] {
				due = append(due, k)
				out[k.n] = true
			}
		}
		slices.SortStableFunc(due, func(x, y event) int {
			return cmp.Or(cmp.Compare(end(x), end(y)), cmp.Compare(x.ts, y.ts),
				cmp.Compare(x.side, y.side), cmp.Compare(x.key, y.key))
		})
		for _, k := range due {
			v := []string{k.value() + "+-", "-+" + k.value()}[k.side]
			lines = append(lines, fmt.Sprintf("%q %s @%d", k.key, v, k.ts))
		}
		if s > end(e) {
			late = append(late, "late "+e.value())
			continue
		}
		var partners []event
		for _, k := range kept {
			l, r := e, k
			if e.side == 1 {
				l, r = k, e
			}
			if k.side != e.side && k.key == e.key && s <= end(k) &&
				l.ts-before <= r.ts && r.ts <= l.ts+after {
				partners = append(partners, k)
			}
		}
		slices.SortStableFunc(partners, func(x, y event) int { return cmp.Compare(x.ts, y.ts) })
		for _, k := range partners {
			l, r := e, k
			if e.side == 1 {
				l, r = k, e
			}
			lines = append(lines, fmt.Sprintf("%q %s+%s @%d", e.key, l.value(), r.value(),
				max(l.ts, r.ts)))
			matched[k.n], matched[e.n] = true, true
		}
		kept = append(kept, e)
	}
	return lines, late
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func TestB11_B12_D1_StreamsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := join.StreamOptions{Join: pair, Store: "j", Late: side,
			Kind:   rapid.SampledFrom([]join.Kind{join.Inner, join.Left, join.Outer}).Draw(t, "kind"),
			Before: ms(rapid.Int64Range(0, 12).Draw(t, "before")),
			After:  ms(rapid.Int64Range(0, 12).Draw(t, "after")),
			Grace:  ms(rapid.SampledFrom([]int64{0, 1, 7, 100}).Draw(t, "grace"))}
		require.NoError(t, o.Validate())
		events := drawEvents(t, false)
		want, wantLate := streamModel(events, o)
		b := &bench{t: t, make: join.NewStreams(o), late: side}
		got, late := split(b.run(events))
		require.Equal(t, want, got)
		require.Equal(t, wantLate, late)
	})
}

// tableModel is B14, B15 and B16 over all rows there were.
func tableModel(events []event, o join.TableOptions) (lines, late []string) {
	history, grace := o.History.Milliseconds(), o.Grace.Milliseconds()
	s := operator.NoTime
	var rows, waiting []event
	join1 := func(e event, at int64) {
		if history > 0 && e.ts < at-history && o.Kind == join.Inner {
			late = append(late, "late "+e.value())
			return
		}
		var row *event
		for i := range rows {
			k := &rows[i]
			switch {
			case k.key != e.key || history > 0 && k.ts > e.ts:
			case row == nil || history == 0 && o.OutOfOrder == join.Apply || k.ts >= row.ts:
				row = k
			}
		}
		v := "-"
		if row != nil && !row.gone && (history == 0 || e.ts >= at-history) {
			v = row.value()
		}
		if v != "-" || o.Kind == join.Left {
			lines = append(lines, fmt.Sprintf("%q %s+%s @%d", e.key, e.value(), v, e.ts))
		}
	}
	for _, e := range events {
		s = max(s, e.ts)
		slices.SortStableFunc(waiting, func(x, y event) int { return cmp.Compare(x.ts, y.ts) })
		for len(waiting) > 0 && waiting[0].ts+grace <= s {
			join1(waiting[0], waiting[0].ts+grace-1)
			waiting = waiting[1:]
		}
		switch {
		case e.side == 1 && history > 0 && e.ts < s-history:
			if e.gone {
				late = append(late, "late ")
			} else {
				late = append(late, "late "+e.value())
			}
		case e.side == 1:
			rows = append(rows, e)
		case e.gone:
		case grace > 0 && e.ts+grace > s:
			waiting = append(waiting, e)
		default:
			join1(e, s)
		}
	}
	return lines, late
}

func TestB14_B15_B16_TableAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := join.TableOptions{Store: "j", Late: side,
			Kind:    rapid.SampledFrom([]join.Kind{join.Inner, join.Left}).Draw(t, "kind"),
			History: ms(rapid.SampledFrom([]int64{0, 5, 12, 1000}).Draw(t, "history")),
			Join: func(rec, row *operator.Record) error {
				l := *rec
				return pair(rec, &l, row)
			}}
		if o.History > 0 {
			o.Grace = ms(rapid.Int64Range(0, 5).Draw(t, "grace"))
		} else if rapid.Bool().Draw(t, "ignore") {
			o.OutOfOrder = join.Ignore
		}
		require.NoError(t, o.Validate())
		events := drawEvents(t, true)
		want, wantLate := tableModel(events, o)
		b := &bench{t: t, make: join.NewTable(o), late: side}
		got, late := split(b.run(events))
		require.Equal(t, want, got)
		require.Equal(t, wantLate, late)
	})
}

// tablesModel is B17: the joined table before and after each upsert.
func tablesModel(events []event, o join.TablesOptions) []string {
	var lines []string
	sides := [2]map[string]event{{}, {}}
	result := func(key string) (string, int64) {
		l, hasL := sides[0][key]
		r, hasR := sides[1][key]
		hasL, hasR = hasL && !l.gone, hasR && !r.gone
		switch {
		case hasL && hasR:
			return l.value() + "+" + r.value(), max(l.ts, r.ts)
		case hasL && o.Kind != join.Inner:
			return l.value() + "+-", l.ts
		case hasR && o.Kind == join.Outer:
			return "-+" + r.value(), r.ts
		}
		return "", 0
	}
	for _, e := range events {
		if old, ok := sides[e.side][e.key]; ok && o.OutOfOrder == join.Ignore && e.ts < old.ts {
			continue
		}
		was, _ := result(e.key)
		old, had := sides[e.side][e.key]
		sides[e.side][e.key] = e
		if e.gone && (!had || old.gone) {
			continue // nothing went
		}
		is, ts := result(e.key)
		ts = max(ts, e.ts)
		if other, ok := sides[1-e.side][e.key]; ok && !other.gone {
			ts = max(ts, other.ts)
		}
		line := fmt.Sprintf("%q %s @%d", e.key, is, ts)
		if is == "" {
			line = fmt.Sprintf("%q gone @%d", e.key, ts)
		}
		if was != "" {
			line += " was " + was
		}
		if was != "" || is != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestB17_TablesAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := join.TablesOptions{Store: "j", Join: pair,
			Kind: rapid.SampledFrom([]join.Kind{join.Inner, join.Left, join.Outer}).Draw(t, "kind"),
			OutOfOrder: rapid.SampledFrom([]join.OutOfOrder{join.Apply, join.Ignore}).
				Draw(t, "out of order")}
		require.NoError(t, o.Validate())
		events := drawEvents(t, true)
		b := &bench{t: t, make: join.NewTables(o)}
		require.Equal(t, tablesModel(events, o), b.run(events))
	})
}
