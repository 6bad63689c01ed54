package runner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/streams/operator"
)

// tableSources are two files of rows: what comes later replaces what came before.
const tableSources = `version: 1
pipeline: p
on_end: close
on_error: {then: dlq, dlq: dead}
sources:
  orders: {connector: file, config: {path: DIR/orders.jsonl}, partitions: 3, key: value.id,
    event_time: 'parse_time(value.at, "rfc3339")'}
  people: {connector: file, config: {path: DIR/people.jsonl}, partitions: 2, key: value.id,
    event_time: 'parse_time(value.at, "rfc3339")'}
  refunds: {connector: file, config: {path: DIR/refunds.jsonl}, partitions: 3, key: value.id,
    event_time: 'parse_time(value.at, "rfc3339")'}
tables:
  order: {from: orders}
  person: {from: people}
  refund: {from: refunds}
`

// Order b goes from ann to bob, order c is closed, bob moves.
const (
	orderRows = `{"id":"a","who":"ann","n":5,"open":true,"at":"2026-01-01T00:00:10Z"}
{"id":"b","who":"ann","n":7,"open":true,"at":"2026-01-01T00:00:20Z"}
{"id":"c","who":"bob","n":2,"open":true,"at":"2026-01-01T00:00:30Z"}
{"id":"d","who":null,"n":1,"open":true,"at":"2026-01-01T00:00:35Z"}
{"id":"b","who":"bob","n":8,"open":true,"at":"2026-01-01T00:00:40Z"}
{"id":"c","who":"bob","n":2,"open":false,"at":"2026-01-01T00:00:50Z"}
`
	peopleRows = `{"id":"ann","city":"oslo","at":"2026-01-01T00:00:01Z"}
{"id":"bob","city":"oslo","at":"2026-01-01T00:00:02Z"}
{"id":"bob","city":"rome","at":"2026-01-01T00:01:00Z"}
`
	refundRows = `{"id":"a","eur":1,"at":"2026-01-01T00:00:15Z"}
{"id":"z","eur":9,"at":"2026-01-01T00:00:16Z"}
`
)

// What is left follows from the rows by hand.
var tableCases = map[string]struct {
	steps string
	want  map[string]string
}{
	"filter": {`- {id: f, from: order, filter: value.open}
- {id: m, map: value.n}`, map[string]string{"a": "5", "b": "8", "d": "1"}},
	"foreign key inner": {`- {id: j, from: order, join: {table: person, on: value.who}}
- {id: m, map: {n: value.n, city: person.city}}`, map[string]string{
		"a": `{"n":5,"city":"oslo"}`, "b": `{"n":8,"city":"rome"}`, "c": `{"n":2,"city":"rome"}`}},
	"foreign key left": {`- {id: j, from: order, join: {table: person, on: value.who, type: left}}
- {id: m, map: {n: value.n, city: person?.city}}`, map[string]string{
		"a": `{"n":5,"city":"oslo"}`, "b": `{"n":8,"city":"rome"}`, "c": `{"n":2,"city":"rome"}`,
		"d": `{"n":1,"city":null}`}},
	"groups of a joined table": {`- {id: f, from: order, filter: value.open}
- {id: j, join: {table: person, on: value.who, as: who}}
- id: g
  aggregate:
    by: who.city
    fields: {n: count, sum: {sum: value.n}, top: {max: value.n}, cities: {distinct: who.city}}`,
		map[string]string{"oslo": `{"n":1,"sum":5,"top":5,"cities":1}`,
			"rome": `{"n":1,"sum":8,"top":8,"cities":1}`}},
	"key inner": {`- {id: j, from: order, join: {table: refund, on: key}}
- {id: m, map: {n: value.n, back: refund.eur}}`, map[string]string{"a": `{"n":5,"back":1}`}},
	"key outer": {`- {id: j, from: order, join: {table: refund, on: key, type: outer}}
- {id: f, filter: value == nil || value.n > 4}
- {id: m, map: {n: value?.n, back: refund?.eur}}`, map[string]string{
		"a": `{"n":5,"back":1}`, "b": `{"n":8,"back":null}`, "z": `{"n":null,"back":9}`}},
	"a group without rows": {`- {id: f, from: order, filter: value.open and value.id == "c"}
- {id: g, aggregate: {by: value.who, fields: {n: count, s: {sum: value.n}, top: {max: value.n}}}}`,
		map[string]string{"bob": `{"n":0,"s":0,"top":null}`}},
	"a group without rows goes": {`- {id: f, from: order, filter: value.open and value.id == "c"}
- {id: g, aggregate: {by: value.who, fields: {n: count}}}
- {id: left, filter: value.n > 0}`, map[string]string{}},
	"a sink of a table": {`- {id: m, from: order, set: {n: 2 * value.n}}
- {id: u, unset: [at, open, id, who]}`, map[string]string{
		"a": `{"n":10}`, "b": `{"n":16}`, "c": `{"n":4}`, "d": `{"n":2}`}},
	"a table of groups joined with another": {`- {id: f, from: order, filter: value.who != nil}
- {id: g, aggregate: {by: value.who, fields: {n: count}}}
- {id: j, join: {table: person, on: key}}
- {id: m, map: {n: value.n, city: person.city}}`, map[string]string{
		"ann": `{"n":1,"city":"oslo"}`, "bob": `{"n":2,"city":"rome"}`}},
}

// rowsOf are the rows a topic is left with, and how often one was deleted.
func (r *rig) rowsOf(topic string) (rows map[string]string, deleted int) {
	rows = map[string]string{}
	for _, rec := range r.read(topic) {
		key := string(rec.Key)
		if rec.Value != nil {
			rows[key] = string(rec.Value)
			continue
		}
		require.Contains(r.t, rows, key, "a deletion of what was not there")
		delete(rows, key)
		deleted++
	}
	return rows, deleted
}

func TestTables(t *testing.T) {
	for name, tc := range tableCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.file("orders.jsonl", orderRows)
			r.file("people.jsonl", peopleRows)
			r.file("refunds.jsonl", refundRows)
			r.run(tableSources + "steps:\n" + tc.steps + "\nsinks: {out: {topic: out}}\n")
			require.Empty(t, r.values("dead"))
			rows, _ := r.rowsOf("out")
			require.Equal(t, tc.want, rows)
		})
	}
}

// TestTablesJoinedByKeyAndByForeignKey: one pipeline joins the same two tables in both ways, in
// either order. Without moving the right rows through a topic both sides would be in one task,
// which cannot wait for itself.
func TestTablesJoinedByKeyAndByForeignKey(t *testing.T) {
	byKey := "  - {id: k, from: order, join: {table: refund, on: key}}\n"
	foreign := `  - {id: j, from: order, join: {table: refund, on: 'value.who == "ann" ? "z" : "a"'}}
`
	for name, steps := range map[string]string{"key first": byKey + foreign,
		"foreign key first": foreign + byKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.file("orders.jsonl", orderRows)
			r.file("people.jsonl", peopleRows)
			r.file("refunds.jsonl", refundRows)
			r.run(tableSources + "steps:\n" + steps + `
  - {id: km, from: k, map: {n: value.n, back: refund.eur}}
  - {id: jm, from: j, map: {n: value.n, back: refund.eur}}
sinks: {keyed: {from: km, topic: keyed}, named: {from: jm, topic: named}}
`)
			require.Empty(t, r.values("dead"))
			rows, _ := r.rowsOf("keyed")
			require.Equal(t, map[string]string{"a": `{"n":5,"back":1}`}, rows)
			rows, _ = r.rowsOf("named")
			require.Equal(t, map[string]string{"a": `{"n":5,"back":9}`, "b": `{"n":8,"back":1}`,
				"c": `{"n":2,"back":1}`, "d": `{"n":1,"back":1}`}, rows)
		})
	}
}

// The parts of a join by a foreign key are nodes of the plan, and the status counts them as such.
func TestStatusCountsThePartsOfAForeignJoin(t *testing.T) {
	r := newRig(t)
	r.file("orders.jsonl", orderRows)
	r.file("people.jsonl", peopleRows)
	r.file("refunds.jsonl", refundRows)
	st := r.run(tableSources + `steps:
  - {id: j, from: order, join: {table: person, on: value.who}}
sinks: {out: {topic: out}}
`)
	steps := map[string]deploy.StepStatus{}
	for _, s := range st.Steps {
		steps[s.ID] = s
	}
	require.EqualValues(t, 6, steps["j.ask"].In, "one for each order")
	require.Positive(t, steps["j.ask"].Out)
	require.GreaterOrEqual(t, steps["j.match"].In, int64(3), "people, and who asks for them")
	require.Positive(t, steps["j.match"].Out)
}

// Rows of compacted topics that others write, with real deletions.
func TestTablesFollowDeletions(t *testing.T) {
	r := newRig(t)
	r.topic("orders", 2)
	r.topic("people", 2)
	r.topic("tick", 1)
	row := func(topic, key, value string, second int64) *kgo.Record {
		rec := &kgo.Record{Topic: topic, Key: []byte(key), Timestamp: time.UnixMilli(second * 1000)}
		if value != "" {
			rec.Value = []byte(value)
		}
		return rec
	}
	s := r.start(`version: 1
pipeline: p
on_error: {then: dlq, dlq: dead}
sources:
  orders: {topic: orders, key: string, idle_after: 100ms}
  people: {topic: people, key: string, idle_after: 100ms}
tables: {order: {from: orders}, person: {from: people}}
steps:
  - {id: j, from: order, join: {table: person, on: value.who, type: left}}
  - {id: m, map: {n: value.n, city: person?.city}}
  - {id: g, from: order, aggregate: {by: value.who, fields: {n: count, top: {max: value.n}}}}
sinks:
  out: {from: m, topic: out}
  groups: {from: g, topic: groups}
  people: {from: person, topic: copy}
`)
	r.write(row("people", "ann", `{"city":"oslo"}`, 1), row("orders", "a", `{"who":"ann","n":1}`, 2),
		row("orders", "b", `{"who":"ann","n":4}`, 3), row("orders", "c", `{broken`, 3))
	s.until("both orders are joined", func() bool {
		rows, _ := r.rowsOf("out")
		return len(rows) == 2 && rows["b"] == `{"n":4,"city":"oslo"}`
	})
	r.write(row("people", "ann", "", 4), row("orders", "b", "", 5), row("people", "bob", "", 6))
	s.until("what is deleted is gone", func() bool {
		rows, _ := r.rowsOf("out")
		return len(rows) == 1 && rows["a"] == `{"n":1,"city":null}`
	})
	s.until("groups and copy follow", func() bool {
		groups, _ := r.rowsOf("groups")
		people, _ := r.rowsOf("copy")
		return groups["ann"] == `{"n":1,"top":1}` && len(people) == 0
	})
	_, deleted := r.rowsOf("copy")
	require.Equal(t, 1, deleted, "of ann; bob was never there")
	s.halt()
	require.True(t, strings.HasPrefix(r.values("dead")[0], `c={broken`))
}

// TestB23_NullKeys: what becomes of a record whose new key is null is said where the key is made;
// a join that keeps what has no partner keeps it too.
func TestB23_NullKeys(t *testing.T) {
	const lines = `{"id":"a","k":"x"}
{"id":"b","k":null}
`
	for name, tc := range map[string]struct {
		steps    string
		out      []string
		dead     []string
		policies string
	}{
		"as on_error says": {steps: `[{id: k, from: in, key_by: value.k}, {map: value.id}]`,
			out: []string{`x="a"`}, dead: []string{`{"id":"b","k":null}`}},
		"dlq though others stop": {steps: `[{id: k, from: in, key_by: {key: value.k, null_key: dlq}}, ` +
			`{map: value.id}]`, policies: "{then: stop, dlq: dead}",
			out: []string{`x="a"`}, dead: []string{`{"id":"b","k":null}`}},
		"drop": {steps: `[{id: k, from: in, key_by: {key: value.k, null_key: drop}}, {map: value.id}]`,
			out: []string{`x="a"`}},
		"round_robin": {steps: `[{id: k, from: in, key_by: {key: value.k, null_key: round_robin}}, ` +
			`{map: value.id}]`, out: []string{`"b"`, `x="a"`}},
		"a left join keeps it": {steps: `[{id: j, from: in, ` +
			`join: {table: t, on: value.k, type: left}}, {map: value.id}]`, out: []string{`"b"`, `x="a"`}},
		"an inner join fails it": {steps: `[{id: j, from: in, join: {table: t, on: value.k}}, ` +
			`{map: value.id}]`, out: []string{`x="a"`}, dead: []string{`{"id":"b","k":null}`}},
		"a global table takes any expression": {steps: `[{id: j, from: in, join: {table: g, ` +
			`on: value.k, type: left}}, {map: {id: value.id, n: g?.n}}]`,
			out: []string{`{"id":"a","n":1}`, `{"id":"b","n":null}`}},
		"a left join of streams": {steps: `[{id: j, from: in, join: {stream: other, on: value.k, ` +
			`with_on: value.id, within: 1m, type: left, late: drop, as: o}}, {map: value.id}]`,
			out: []string{`"b"`, `x="a"`}},
		"an aggregate fails it": {steps: `[{id: agg, from: in, aggregate: {by: value.k, ttl: 1h, ` +
			`fields: {n: count}}}]`, out: []string{`x={"n":1}`},
			dead: []string{`{"id":"b","k":null}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.file("in.jsonl", lines)
			r.file("rows.jsonl", `{"id":"x","n":1}`+"\n")
			if tc.policies == "" {
				tc.policies = "{then: dlq, dlq: dead}"
			}
			r.run(`version: 1
pipeline: p
on_end: close
on_error: ` + tc.policies + `
sources:
  in: {connector: file, config: {path: DIR/in.jsonl}, partitions: 3}
  rows: {connector: file, config: {path: DIR/rows.jsonl}, partitions: 2, key: value.id}
  other: {connector: file, config: {path: DIR/rows.jsonl}, partitions: 3}
tables: {t: {from: rows}, g: {from: rows, global: true}}
steps: ` + tc.steps + "\nsinks: {out: {topic: out}}\n")
			require.Equal(t, tc.out, r.values("out"))
			require.Equal(t, tc.dead, r.values("dead"))
		})
	}
}

// A row of a table whose group is null is in none, and that is said: as of a stream.
func TestB23_NullGroupsOfTables(t *testing.T) {
	for policy, dead := range map[string][]string{
		"{then: dlq, dlq: dead}": {
			`d={"id":"d","who":null,"n":1,"open":true,"at":"2026-01-01T00:00:35Z"}`},
		"{then: stop, by_class: {key: drop}}": nil,
	} {
		r := newRig(t)
		r.file("orders.jsonl", orderRows)
		r.file("people.jsonl", peopleRows)
		r.file("refunds.jsonl", refundRows)
		r.run(strings.Replace(tableSources, "{then: dlq, dlq: dead}", policy, 1) + `steps:
  - {id: g, from: order, aggregate: {by: value.who, fields: {n: count}}}
sinks: {out: {topic: out}}
`)
		rows, _ := r.rowsOf("out")
		require.Equal(t, map[string]string{"ann": `{"n":1}`, "bob": `{"n":2}`}, rows)
		require.Equal(t, dead, r.values("dead"))
		for _, rec := range r.read("dead") {
			for _, h := range rec.Headers {
				require.False(t, h.Key == operator.HeaderDLQClass && string(h.Value) != "key")
			}
		}
	}
}

// A template stands for its steps, with its parameters; two uses have state of their own.
func TestTemplates(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", events)
	r.run(strings.Replace(fileSource, "sources:\n", `templates:
  top:
    params: {by: {type: path}, least: {type: int, default: 0}, tag: {type: string}}
    steps:
      - filter: value.n > ${param:least}
      - {id: counted, aggregate: {by: 'value.${param:by}', unbounded: true, fields: {n: count}}}
      - map: {key: key, n: value.n, tag: '${param:tag}'}
sources:
`, 1) + `steps:
  - {id: kinds, from: in, use: top, with: {by: kind, tag: '"it''s"'}}
  - {id: users, from: in, use: top, with: {by: who, least: 1, tag: k}}
sinks: {kinds: {from: kinds, topic: kinds}, users: {from: users, topic: users}}
`)
	require.Equal(t, []string{`x={"key":"x","n":1,"tag":"\"it's\""}`,
		`x={"key":"x","n":2,"tag":"\"it's\""}`, `y={"key":"y","n":1,"tag":"\"it's\""}`,
		`z={"key":"z","n":1,"tag":"\"it's\""}`}, r.values("kinds"))
	require.Equal(t, []string{`u1={"key":"u1","n":1,"tag":"k"}`, `u2={"key":"u2","n":1,"tag":"k"}`,
		`u9={"key":"u9","n":1,"tag":"k"}`}, r.values("users"))
}

// A session that grows takes its former result back, wherever steps have sent that: through filters
// and new keys, and nowhere else.
func TestWhatIsTakenBackGoesWhereItWent(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", `{"u":"a","n":1,"at":"2026-01-01T00:00:10Z"}
{"u":"a","n":4,"at":"2026-01-01T00:00:12Z"}
{"u":"a","n":2,"at":"2026-01-01T00:00:14Z"}
`)
	r.run(fileSource + eventTime + `steps:
  - id: s
    aggregate: {by: value.u, window: {session: 5s}, late: drop, fields: {sum: {sum: value.n}}}
  - {id: m, map: {total: value.sum}}
  - {id: f, filter: value.total > 4}
  - {id: k, key_by: value.total}
  - {branch: [{when: value.total > 6, as: large}, {else: true, as: small}]}
sinks: {large: {from: large, topic: large}, small: {from: small, topic: small}}
`)
	rows, deleted := r.rowsOf("small")
	require.Empty(t, rows)
	require.Equal(t, 1, deleted, "the 5, which became 7; 1 never passed the filter")
	rows, deleted = r.rowsOf("large")
	require.Equal(t, map[string]string{"7": `{"total":7}`}, rows)
	require.Zero(t, deleted)
}

// So does one whose results are told every 2 s: what it takes back is what it told, 5, and neither
// what it came to since, 7, nor what was never told, as 1 behind the filter.
func TestWhatIsTakenBackIsWhatWasTold(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", `{"u":"a","n":1,"at":"2026-01-01T00:00:10Z"}
{"u":"a","n":4,"at":"2026-01-01T00:00:12Z"}
{"u":"b","n":0,"at":"2026-01-01T00:00:14Z"}
{"u":"a","n":2,"at":"2026-01-01T00:00:11Z"}
{"u":"a","n":1,"at":"2026-01-01T00:00:15Z"}
{"u":"b","n":0,"at":"2026-01-01T00:00:16Z"}
`)
	r.run(strings.Replace(fileSource, "partitions: 3", "partitions: 1", 1) + eventTime + `steps:
  - id: s
    aggregate: {by: value.u, window: {session: 5s}, late: drop, emit: {every: 2s},
      fields: {sum: {sum: value.n}}}
  - {id: m, map: {total: value.sum}}
  - {id: f, filter: value.total > 4}
  - {id: k, key_by: value.total}
  - {branch: [{when: value.total > 6, as: large}, {else: true, as: small}]}
sinks: {large: {from: large, topic: large}, small: {from: small, topic: small}}
`)
	rows, deleted := r.rowsOf("small")
	require.Empty(t, rows)
	require.Equal(t, 1, deleted)
	rows, deleted = r.rowsOf("large")
	require.Equal(t, map[string]string{"8": `{"total":8}`}, rows)
	require.Zero(t, deleted)
}
