package aggregate_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/window"
)

// bench runs an operator alone, with a restart after any record.
type bench struct {
	t      require.TestingT
	o      aggregate.Options
	stores *streamstest.Stores
	op     operator.Operator
	ctx    *operator.Context
	s      int64
	n      int64
	late   int
}

func newBench(t require.TestingT, o aggregate.Options) *bench {
	o.Store = "rows"
	require.NoError(t, o.Validate())
	b := &bench{t: t, o: o, stores: streamstest.NewStores(), s: operator.NoTime}
	b.restart()
	return b
}

func (b *bench) restart() {
	b.op = aggregate.New(b.o)()
	b.ctx = operator.NewContext(operator.ContextOptions{Step: "agg", Stores: b.stores,
		StreamTime: b.s, Late: operator.LatePolicy{Action: operator.LateSide, Topic: "late"},
		Reporter: b, OnError: operator.ErrorPolicy{Then: operator.Stop}})
}

// DeadLetter implements operator.Reporter.
func (b *bench) DeadLetter(*operator.Record, operator.DeadLetter) {}

// LateRecord implements operator.Reporter.
func (b *bench) LateRecord(*operator.Record, string, operator.LateReport) { b.late++ }

// feed processes records in one batch and returns what came out.
func (b *bench) feed(list ...moment) []string {
	in := operator.Batch{StreamTime: b.s}
	for _, m := range list {
		b.s = max(b.s, m.ts)
		in.Records = append(in.Records, operator.Record{Key: []byte(m.key), Timestamp: m.ts,
			Value: fmt.Appendf(nil, "%d", m.val), StreamTime: b.s, Order: 2*b.n + 1})
		b.n++
	}
	in.StreamTime = b.s
	return b.process(&in)
}

func (b *bench) end() []string {
	b.s = operator.EndOfTime
	return b.process(&operator.Batch{StreamTime: b.s})
}

func (b *bench) process(in *operator.Batch) (got []string) {
	var out operator.Batch
	require.NoError(b.t, b.op.Process(b.ctx, in, &out))
	for i := range out.Records {
		got = append(got, showRecord(&out.Records[i]))
	}
	return got
}

func showRecord(r *operator.Record) string {
	if r.TakesBack() {
		return "†" + r.Window.String() + string(r.Key)
	}
	_, fields, _ := strings.Cut(string(r.Value), `"n":`)
	return fmt.Sprintf("%s%s=%s@%d", r.Window, r.Key, fields, r.Timestamp)
}

// moment is one record of a property test.
type moment struct {
	key string
	ts  int64
	val int64
}

func drawMoments(t *rapid.T) []moment {
	at := int64(50)
	var list []moment
	for range rapid.IntRange(1, 40).Draw(t, "records") {
		at += rapid.Int64Range(-14, 16).Draw(t, "step")
		list = append(list, moment{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
			max(0, at), rapid.Int64Range(-5, 5).Draw(t, "value")})
	}
	return list
}

// manyFields are fields that between them keep every kind of state.
func manyFields() []aggregate.Field {
	f := func(name string, fn aggregate.Func) aggregate.Field {
		return aggregate.Field{Name: name, Func: fn, Value: number, Limit: 3, PerMille: 500}
	}
	return []aggregate.Field{{Name: "n"}, f("sum", aggregate.Sum), f("min", aggregate.Min),
		f("max", aggregate.Max), f("avg", aggregate.Avg), f("first", aggregate.First),
		f("last", aggregate.Last), f("distinct", aggregate.Distinct),
		f("approx", aggregate.ApproxDistinct), f("collect", aggregate.Collect),
		f("top", aggregate.TopK), f("median", aggregate.Quantile)}
}

func number(rec *operator.Record) (aggregate.Value, error) {
	return aggregate.JSONValue(rec.Value)
}

// plain computes the fields from the records themselves, in order of arrival. Numbers are below
// 128, where quantiles are exact.
func plain(list []moment) string {
	byTime := slices.Clone(list)
	slices.SortStableFunc(byTime, func(a, b moment) int { return cmp.Compare(a.ts, b.ts) })
	byValue := slices.Clone(byTime)
	slices.SortStableFunc(byValue, func(a, b moment) int {
		return cmp.Or(cmp.Compare(b.val, a.val), cmp.Compare(a.ts, b.ts))
	})
	var sum int64
	var values []int64
	kinds := map[int64]bool{}
	for _, m := range list {
		sum += m.val
		values = append(values, m.val)
		kinds[m.val] = true
	}
	slices.Sort(values)
	last := byTime[len(byTime)-1]
	show := func(list []moment) string {
		var texts []string
		for _, m := range list[:min(3, len(list))] {
			texts = append(texts, fmt.Sprint(m.val))
		}
		return "[" + strings.Join(texts, ",") + "]"
	}
	n := len(list)
	avg := strings.Replace(fmt.Sprint(float64(sum)/float64(n)), "-0", "-0", 1)
	if sum == 0 {
		avg = "0"
	}
	return fmt.Sprintf(`%d,"sum":%d,"min":%d,"max":%d,"avg":%s,"first":%d,"last":%d,`+
		`"distinct":%d,"approx":%d,"collect":%s,"top":%s,"median":%d}`, n, sum, values[0],
		values[n-1], avg, byTime[0].val, last.val, len(kinds), len(kinds), show(byTime),
		show(byValue), values[(n+1)/2-1])
}

// session is a session of the model: its records in order of arrival.
type session struct {
	key        string
	start, end int64
	records    []moment
}

func (s *session) String() string {
	return fmt.Sprintf("[%d,%d]%s", s.start, s.end, s.key)
}

func (s *session) result() string { return fmt.Sprintf("%s=%s@%d", s, plain(s.records), s.end) }

// sessionModel follows rule B6 word by word.
type sessionModel struct {
	gap, grace int64
	onClose    bool
	s          int64
	open       []*session
	late       int
}

func (m *sessionModel) feed(x moment) (out []string) {
	out = m.advance(max(m.s, x.ts))
	if m.s > x.ts+m.gap+m.grace {
		m.late++
		return out
	}
	joined := &session{key: x.key, start: x.ts, end: x.ts}
	var rest, old []*session
	for _, s := range m.open {
		if s.key == x.key && x.ts >= s.start-m.gap && x.ts <= s.end+m.gap {
			old = append(old, s)
		} else {
			rest = append(rest, s)
		}
	}
	slices.SortFunc(old, func(a, b *session) int { return cmp.Compare(a.start, b.start) })
	for _, s := range old {
		joined.start, joined.end = min(joined.start, s.start), max(joined.end, s.end)
		joined.records = append(joined.records, s.records...)
	}
	joined.records = append(joined.records, x)
	m.open = append(rest, joined)
	if m.onClose {
		return out
	}
	for _, s := range old {
		if s.String() != joined.String() {
			out = append(out, "†"+s.String())
		}
	}
	return append(out, joined.result())
}

func (m *sessionModel) advance(s int64) (out []string) {
	m.s = s
	var over, rest []*session
	for _, x := range m.open {
		if s == operator.EndOfTime || s > x.end+m.gap+m.grace {
			over = append(over, x)
		} else {
			rest = append(rest, x)
		}
	}
	m.open = rest
	slices.SortFunc(over, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start),
			cmp.Compare(a.key, b.key))
	})
	for _, x := range over {
		if m.onClose {
			out = append(out, x.result())
		}
	}
	return out
}

func TestRuleB6_SessionsAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &sessionModel{gap: rapid.Int64Range(1, 12).Draw(t, "gap"),
			grace: rapid.Int64Range(0, 20).Draw(t, "grace"), s: operator.NoTime,
			onClose: rapid.Bool().Draw(t, "on close")}
		o := aggregate.Options{Windows: window.Windows{Kind: window.Session, Size: m.gap},
			Grace: time.Duration(m.grace) * time.Millisecond, Fields: manyFields()}
		if m.onClose {
			o.Emit = aggregate.OnClose
		}
		checkModel(t, newBench(t, o), drawMoments(t), m.feed,
			func() []string { return m.advance(operator.EndOfTime) }, &m.late)
	})
}

// checkModel feeds records in batches of random sizes, with restarts, and compares.
func checkModel(t *rapid.T, b *bench, list []moment, feed func(moment) []string,
	end func() []string, late *int) {
	for len(list) > 0 {
		n := rapid.IntRange(1, len(list)).Draw(t, "batch")
		var want []string
		for _, x := range list[:n] {
			want = append(want, feed(x)...)
		}
		require.Equal(t, want, b.feed(list[:n]...))
		list = list[n:]
		if rapid.Bool().Draw(t, "restart") {
			b.restart()
		}
	}
	require.Equal(t, end(), b.end())
	require.Equal(t, *late, b.late)
}

// slidingModel follows rule B7 word by word: it keeps all records it took and looks at every start.
type slidingModel struct {
	size, grace int64
	onClose     bool
	s           int64
	records     []moment
	made        []slide
	late        int
}

type slide struct {
	key    string
	start  int64
	closed bool
}

func (m *slidingModel) in(key string, start int64) (list []moment) {
	for _, r := range m.records {
		if r.key == key && r.ts >= start && r.ts <= start+m.size {
			list = append(list, r)
		}
	}
	return list
}

func (m *slidingModel) result(w slide) string {
	list := m.in(w.key, w.start)
	ts := int64(0)
	for _, r := range list {
		ts = max(ts, r.ts)
	}
	return fmt.Sprintf("[%d,%d]%s=%s@%d", w.start, w.start+m.size, w.key, plain(list), ts)
}

func (m *slidingModel) has(w slide) bool {
	return slices.ContainsFunc(m.made, func(x slide) bool {
		return x.key == w.key && x.start == w.start
	})
}

func (m *slidingModel) feed(x moment) (out []string) {
	out = m.advance(max(m.s, x.ts))
	if x.ts+m.size < m.s-m.grace {
		m.late++
		return out
	}
	m.records = append(m.records, x)
	// Every instant has a window that it ends and, if that holds a record, one behind it.
	starts := map[int64]bool{}
	for _, r := range m.records {
		if r.key != x.key {
			continue
		}
		starts[max(0, r.ts-m.size)] = true
		if len(m.in(x.key, r.ts+1)) > 0 {
			starts[r.ts+1] = true
		}
	}
	for start := int64(0); start <= x.ts+1; start++ {
		w := slide{key: x.key, start: start}
		if !starts[start] || start+m.size < m.s-m.grace {
			continue // there is no such window, or it is closed
		}
		if !m.has(w) {
			m.made = append(m.made, w)
		} else if x.ts < start || x.ts > start+m.size {
			continue
		}
		if !m.onClose {
			out = append(out, m.result(w))
		}
	}
	return out
}

func (m *slidingModel) advance(s int64) (out []string) {
	m.s = s
	slices.SortFunc(m.made, func(a, b slide) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.key, b.key))
	})
	for i := range m.made {
		w := &m.made[i]
		if !w.closed && w.start+m.size < s-m.grace {
			w.closed = true
			if m.onClose {
				out = append(out, m.result(*w))
			}
		}
	}
	return out
}

func TestRuleB7_SlidingWindowsAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &slidingModel{size: rapid.Int64Range(1, 12).Draw(t, "size"), s: operator.NoTime + 100,
			grace: rapid.Int64Range(0, 20).Draw(t, "grace"), onClose: rapid.Bool().Draw(t, "on close")}
		o := aggregate.Options{Windows: window.Windows{Kind: window.Sliding, Size: m.size},
			Grace: time.Duration(m.grace) * time.Millisecond, Fields: manyFields()}
		if m.onClose {
			o.Emit = aggregate.OnClose
		}
		checkModel(t, newBench(t, o), drawMoments(t), m.feed,
			func() []string { return m.advance(operator.EndOfTime) }, &m.late)
	})
}
