package runner

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/streamstest"
)

// The tables of the model, whose rows are the last ones written.
type (
	orderRow struct {
		n   int
		who string // "" is null
	}
	tableModel struct {
		orders, refunds map[string]orderRow
		people          map[string]string // id -> city, "" is null
	}
)

const modelPipeline = `version: 1
pipeline: p
sources:
  orders: {topic: orders, key: string}
  refunds: {topic: refunds, key: string}
  people: {topic: people, key: string}
tables:
  order: {from: orders}
  refund: {from: refunds}
  person: {from: people}
  cities: {from: per_city}
steps:
  - {id: large, from: order, filter: value.n > 2}
  - {id: named, from: large, join: {table: person, on: value.who, as: who, type: %s}}
  - {id: lines, map: {n: value.n, city: who?.city}}
  - id: per_city
    from: named
    aggregate:
      by: 'who?.city ?? "-"'
      fields: {n: count, sum: {sum: value.n}, low: {min: value.n}, high: {max: value.n},
        kinds: {distinct: value.n}, mean: {avg: value.n}}
  - {id: busy, from: cities, filter: value.n > 1}
  - {id: cities_of, map: {n: value.n}}
  - {id: per_size, from: cities_of, aggregate: {by: value.n, fields: {cities: count}}}
  - {id: both, from: order, join: {table: refund, on: key, as: back, type: %s}}
  - {id: net, map: {n: value?.n, back: back?.n}}
sinks:
  lines: {from: lines, topic: lines}
  per_city: {from: per_city, topic: per_city}
  busy: {from: busy, topic: busy}
  per_size: {from: per_size, topic: per_size}
  net: {from: net, topic: net}
`

// lines is what the join by foreign key comes to.
func (m *tableModel) lines(kind string) map[string]string {
	out := map[string]string{}
	for id, o := range m.orders {
		city, there := m.people[o.who]
		if o.who == "" {
			there = false
		}
		switch {
		case o.n <= 2 || !there && kind == "inner":
		case there && city != "":
			out[id] = fmt.Sprintf(`{"n":%d,"city":%q}`, o.n, city)
		default:
			out[id] = fmt.Sprintf(`{"n":%d,"city":null}`, o.n)
		}
	}
	return out
}

// cities are the groups that have rows.
func (m *tableModel) cities(kind string) map[string][]int {
	out := map[string][]int{}
	for id := range m.lines(kind) {
		o := m.orders[id]
		city := "-"
		if c := m.people[o.who]; o.who != "" && c != "" {
			city = c
		}
		out[city] = append(out[city], o.n)
	}
	return out
}

func groupOf(ns []int) string {
	sum := 0
	kinds := map[int]bool{}
	for _, n := range ns {
		sum += n
		kinds[n] = true
	}
	mean := fmt.Sprint(float64(sum) / float64(len(ns)))
	return fmt.Sprintf(`{"n":%d,"sum":%d,"low":%d,"high":%d,"kinds":%d,"mean":%s}`, len(ns), sum,
		slices.Min(ns), slices.Max(ns), len(kinds), mean)
}

// net is the join by key.
func (m *tableModel) net(kind string) map[string]string {
	out := map[string]string{}
	show := func(rows map[string]orderRow, id string) string {
		if r, ok := rows[id]; ok {
			return fmt.Sprint(r.n)
		}
		return "null"
	}
	for id := range m.orders {
		if _, ok := m.refunds[id]; ok || kind != "inner" {
			out[id] = fmt.Sprintf(`{"n":%s,"back":%s}`, show(m.orders, id), show(m.refunds, id))
		}
	}
	if kind == "outer" {
		for id := range m.refunds {
			out[id] = fmt.Sprintf(`{"n":%s,"back":%s}`, show(m.orders, id), show(m.refunds, id))
		}
	}
	return out
}

// change draws an upsert or a deletion of one of the tables and applies it to the model.
func (m *tableModel) change(t *rapid.T) (topic string, rec record.Record) {
	key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
	who := rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "who")
	n := rapid.IntRange(1, 6).Draw(t, "n")
	gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
	rec.Timestamp = rapid.Int64Range(0, 50).Draw(t, "ts")
	quoted := "null"
	if who != "" {
		quoted = fmt.Sprintf("%q", who)
	}
	topic = rapid.SampledFrom([]string{"orders", "orders", "refunds", "people"}).Draw(t, "topic")
	rows := m.orders
	switch topic {
	case "refunds":
		rows = m.refunds
	case "people":
		key = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "person")
		city := rapid.SampledFrom([]string{"rome", "oslo", ""}).Draw(t, "city")
		rec.Key = []byte(key)
		if delete(m.people, key); gone {
			return topic, rec
		}
		m.people[key] = city
		if rec.Value = fmt.Appendf(nil, `{"city":%q}`, city); city == "" {
			rec.Value = []byte(`{"city":null}`)
		}
		return topic, rec
	}
	rec.Key = []byte(key)
	if delete(rows, key); gone {
		return topic, rec
	}
	rows[key] = orderRow{n, who}
	rec.Value = fmt.Appendf(nil, `{"n":%d,"who":%s}`, n, quoted)
	return topic, rec
}

// latest are the rows of a topic that holds a table. A deletion of what is not there fails.
func latest(t require.TestingT, topic string, recs []streamstest.Record) map[string]string {
	rows := map[string]string{}
	for _, r := range recs {
		if r.Value == nil {
			require.Contains(t, rows, string(r.Key), "%s: a deletion of nothing", topic)
			delete(rows, string(r.Key))
			continue
		}
		rows[string(r.Key)] = string(r.Value)
	}
	return rows
}

// TestTablesOfYAMLAgreeWithAModel writes any history of rows into the topics of three tables, with
// any batches, commits, crashes and numbers of partitions, and compares joins, groups, groups of
// groups and filters with what follows from the rows that are left.
func TestTablesOfYAMLAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := rapid.SampledFrom([]string{"inner", "left"}).Draw(t, "foreign")
		byKey := rapid.SampledFrom([]string{"inner", "left", "outer"}).Draw(t, "by key")
		n := rapid.Int32Range(1, 3).Draw(t, "partitions")
		cut := map[string]int32{"orders": n, "refunds": n,
			"people": rapid.Int32Range(1, 3).Draw(t, "people")}
		b, _ := assembled(t, fmt.Sprintf(modelPipeline, foreign, byKey), cut)
		d, err := streamstest.New(b, streamstest.Options{Partitions: cut,
			Batch:      rapid.IntRange(1, 5).Draw(t, "batch"),
			CrashEvery: rapid.IntRange(0, 7).Draw(t, "crash"),
			Rand:       rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))})
		require.NoError(t, err)
		m := &tableModel{map[string]orderRow{}, map[string]orderRow{}, map[string]string{}}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			topic, rec := m.change(t)
			d.Feed(topic, record.PartitionForKey(rec.Key, cut[topic]), rec)
			if rapid.IntRange(0, 9).Draw(t, "run") == 0 {
				require.NoError(t, d.Run())
			}
		}
		d.EndOfInput()
		require.NoError(t, d.Run())
		require.Equal(t, m.lines(foreign), latest(t, "lines", d.Output("lines")))
		require.Equal(t, m.net(byKey), latest(t, "net", d.Output("net")))
		groups, busy, sizes := map[string]string{}, map[string]string{}, map[string]int{}
		for city, ns := range m.cities(foreign) {
			groups[city] = groupOf(ns)
			if len(ns) > 1 {
				busy[city] = groups[city]
				sizes[fmt.Sprint(len(ns))]++
			}
		}
		got := latest(t, "per_city", d.Output("per_city"))
		maps.DeleteFunc(got, func(_, v string) bool { return emptyGroup(v) })
		require.Equal(t, groups, got)
		require.Equal(t, busy, latest(t, "busy", d.Output("busy")))
		got = latest(t, "per_size", d.Output("per_size"))
		for size, cities := range got {
			want := fmt.Sprintf(`{"cities":%d}`, sizes[size])
			require.Equal(t, want, cities, "cities with %s orders", size)
		}
		for size := range sizes {
			require.Contains(t, got, size)
		}
	})
}

// emptyGroup tells a group that has lost all its rows: its sums are those of nothing.
func emptyGroup(v string) bool { return len(v) > 7 && v[:7] == `{"n":0,` }
