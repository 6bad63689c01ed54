package runner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fileSource reads in.jsonl to its end.
const fileSource = `version: 1
pipeline: p
on_end: close
sources:
  in:
    connector: file
    config: {path: DIR/in.jsonl}
    partitions: 3
`

// events have ids a to d; at rises with them, four minutes in all.
const events = `{"id":"a","n":1,"kind":"x","tags":["r","s"],"who":"u1","at":"2026-01-01T00:00:10Z"}
{"id":"b","n":5,"kind":"y","tags":[],"who":"u2","at":"2026-01-01T00:01:10Z"}
{"id":"c","n":9,"kind":"x","tags":["t"],"who":"u9","at":"2026-01-01T00:02:10Z"}
{"id":"d","n":2,"kind":"z","tags":["r"],"who":"u1","at":"2026-01-01T00:03:10Z"}
`

// operatorCase is a pipeline over the events and what it gives.
type operatorCase struct {
	source string // more lines of the source, sources and top keys
	steps  string
	sinks  string // "" is {out: {topic: out, value: value}}
	want   map[string][]string
}

const users = `  people: {connector: file, config: {path: DIR/users.jsonl}, key: value.id}
tables: {users: {from: people}}
`

// eventTime makes a source go by the events' own times.
const eventTime = "    event_time: 'parse_time(value.at, \"rfc3339\")'\n"

// Expected values are worked out by hand from the four events.
var operatorCases = map[string]operatorCase{
	"filter": {steps: `[{filter: value.n > 2}]`, sinks: `{out: {topic: out, value: value.id}}`,
		want: map[string][]string{"out": {`"b"`, `"c"`}}},
	"map to an object": {steps: `[{map: {i: value.id, twice: 2 * value.n}}]`,
		want: map[string][]string{"out": {`{"i":"a","twice":2}`, `{"i":"b","twice":10}`,
			`{"i":"c","twice":18}`, `{"i":"d","twice":4}`}}},
	"map to a value": {steps: `[{map: value.n}]`,
		want: map[string][]string{"out": {`1`, `2`, `5`, `9`}}},
	"set and unset": {steps: `[{set: {n: value.n + 1, deep.er: '"x"'}}, ` +
		`{unset: [tags, at, who, kind]}]`,
		want: map[string][]string{"out": {`{"id":"a","n":2,"deep":{"er":"x"}}`,
			`{"id":"b","n":6,"deep":{"er":"x"}}`, `{"id":"c","n":10,"deep":{"er":"x"}}`,
			`{"id":"d","n":3,"deep":{"er":"x"}}`}}},
	"flat_map": {steps: `[{flat_map: value.tags}]`,
		want: map[string][]string{"out": {`"r"`, `"r"`, `"s"`, `"t"`}}},
	"key_by": {steps: `[{id: k, key_by: value.kind}, {map: value.id}]`,
		want: map[string][]string{"out": {`x="a"`, `x="c"`, `y="b"`, `z="d"`}}},
	"branch and merge": {steps: `[{branch: [{when: value.n < 2, as: small}, ` +
		`{when: value.n > 8, as: large}, {else: true, as: rest}]}, ` +
		`{id: ends, from: [small, large], map: value.id}, {id: mid, from: rest, map: value.id}]`,
		sinks: `{ends: {from: ends, topic: ends}, mid: {from: mid, topic: mid}}`,
		want:  map[string][]string{"ends": {`"a"`, `"c"`}, "mid": {`"b"`, `"d"`}}},
	"join inner drops what has no row": {source: users,
		steps: `[{id: j, from: in, join: {table: users, on: value.who, as: user}}, ` +
			`{map: {id: value.id, name: user.name}}]`,
		want: map[string][]string{"out": {`u1={"id":"a","name":"Ann"}`,
			`u1={"id":"d","name":"Ann"}`, `u2={"id":"b","name":"Bob"}`}}},
	"join left keeps it": {source: users,
		steps: `[{id: j, from: in, join: {table: users, on: value.who, as: user, type: left}}, ` +
			`{map: {id: value.id, name: 'user?.name ?? "-"'}}]`,
		want: map[string][]string{"out": {`u1={"id":"a","name":"Ann"}`,
			`u1={"id":"d","name":"Ann"}`, `u2={"id":"b","name":"Bob"}`, `u9={"id":"c","name":"-"}`}}},
	"join sends it to the dead letters": {source: users + "on_error: {then: stop, dlq: dead}\n",
		steps: `[{id: j, from: in, join: {table: users, on: value.who, as: user, missing: dlq}}, ` +
			`{map: user.name}]`,
		want: map[string][]string{"out": {`u1="Ann"`, `u1="Ann"`, `u2="Bob"`},
			"dead": {strings.Split(events, "\n")[2]}}},
	"tumbling on close": {source: "    event_time: 'parse_time(value.at, \"rfc3339\")'\n",
		steps: `[{id: agg, aggregate: {by: value.who, window: {tumbling: 2m}, emit: on_close, ` +
			`late: drop, fields: {n: count, s: {sum: value.n}, lo: {min: value.n}, ` +
			`hi: {max: value.n}, m: {avg: value.n}}}}, {set: {w: 'format_time(window.start, "15:04")'}}]`,
		want: map[string][]string{"out": {
			`u1={"n":1,"s":1,"lo":1,"hi":1,"m":1,"w":"00:00"}`,
			`u1={"n":1,"s":2,"lo":2,"hi":2,"m":2,"w":"00:02"}`,
			`u2={"n":1,"s":5,"lo":5,"hi":5,"m":5,"w":"00:00"}`,
			`u9={"n":1,"s":9,"lo":9,"hi":9,"m":9,"w":"00:02"}`}}},
	"session with many aggregators": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', window: {session: 1m}, emit: on_close, ` +
			`late: drop, fields: {n: count, f: {first: value.id}, l: {last: {of: value.id, ` +
			`by: offset}}, d: {distinct: value.who}, a: {approx_distinct: value.who}, ` +
			`c: {collect: {of: value.tags, limit: 2}}, k: {topk: {k: 2, by: value.n, ` +
			`of: value.id}}, p: {p50: value.n}, s: {stddev: value.n}}}}]`,
		want: map[string][]string{"out": {`all={"n":4,"f":"a","l":"d","d":3,"a":3,` +
			`"c":[["r","s"],[]],"k":["c","b"],"p":2,"s":3.593976442141304}`}}},
	"sliding on close": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', window: {sliding: 1m}, emit: on_close, ` +
			`late: drop, fields: {s: {sum: value.n}}}}, ` +
			`{set: {w: 'format_time(window.start, "04:05")', e: 'format_time(window.end, "04:05")'}}]`,
		want: map[string][]string{"out": {`all={"s":1,"w":"59:10","e":"00:10"}`,
			`all={"s":11,"w":"02:10","e":"03:10"}`, `all={"s":14,"w":"01:10","e":"02:10"}`,
			`all={"s":2,"w":"02:10","e":"03:10"}`, `all={"s":5,"w":"00:10","e":"01:10"}`,
			`all={"s":6,"w":"00:10","e":"01:10"}`, `all={"s":9,"w":"01:10","e":"02:10"}`}}},
	"count windows": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', window: {count: 2}, ttl: 1d, emit: on_close, ` +
			`fields: {s: {sum: value.n}}}}]`,
		want: map[string][]string{"out": {`all={"s":11}`, `all={"s":6}`}}},
	"all records every two minutes": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', unbounded: true, emit: {every: 2m}, ` +
			`fields: {s: {sum: value.n}}}}]`,
		want: map[string][]string{"out": {`all={"s":17}`, `all={"s":6}`}}},
	"reduce": {source: eventTime,
		steps: `[{id: r, reduce: {by: value.who, ttl: 1d, init: '{n: 0, ids: []}', ` +
			`update: '{n: acc.n + value.n, ids: concat(acc.ids, [value.id])}'}}, ` +
			`{filter: 'len(value.ids) > 1'}]`,
		want: map[string][]string{"out": {`u1={"n":3,"ids":["a","d"]}`}}},
	"dedupe": {source: eventTime,
		steps: `[{id: d, dedupe: {key: value.who, within: 2m}}, {map: value.id}]`,
		want:  map[string][]string{"out": {`u1="a"`, `u1="d"`, `u2="b"`, `u9="c"`}}},
	"dedupe for longer": {source: eventTime,
		steps: `[{id: d, dedupe: {key: value.who, within: 3m}}, {map: value.id}]`,
		want:  map[string][]string{"out": {`u1="a"`, `u2="b"`, `u9="c"`}}},
	"throttle": {source: eventTime + "on_error: {then: stop, dlq: dead}\n",
		steps: `[{id: k, key_by: '"all"'}, {id: t, throttle: {rate: 1/2m, key: key, over: dlq}}, ` +
			`{map: value.id}]`,
		want: map[string][]string{"out": {`all="a"`, `all="c"`},
			"dead": {strings.Split(events, "\n")[1], strings.Split(events, "\n")[3]}}},
	"hopping on close": {source: "    event_time: 'parse_time(value.at, \"rfc3339\")'\n",
		steps: `[{id: agg, aggregate: {by: '"all"', window: {hopping: {size: 2m, every: 1m}}, ` +
			`emit: on_close, late: drop, fields: {s: {sum: value.n}}}}, ` +
			`{set: {w: 'format_time(window.start, "15:04")'}}]`,
		want: map[string][]string{"out": {`all={"s":1,"w":"23:59"}`, `all={"s":11,"w":"00:02"}`,
			`all={"s":14,"w":"00:01"}`, `all={"s":2,"w":"00:03"}`, `all={"s":6,"w":"00:00"}`}}},
	"tumbling on update": {source: "    event_time: 'parse_time(value.at, \"rfc3339\")'\n",
		steps: `[{id: agg, aggregate: {by: value.who, window: {tumbling: 1h}, emit: on_update, ` +
			`late: drop, fields: {s: {sum: value.n}}}}]`,
		want: map[string][]string{"out": {`u1={"s":1}`, `u1={"s":3}`, `u2={"s":5}`, `u9={"s":9}`}}},
	"log": {steps: `[{log: 'saw {{ value.id }}'}, {map: value.id}]`,
		want: map[string][]string{"out": {`"a"`, `"b"`, `"c"`, `"d"`}}},
	"sink templates": {steps: `[{filter: value.n > 4}]`,
		sinks: `{out: {topic: out, key: value.kind, value: '{"id": value.id, "p": partition >= 0}'}}`,
		want:  map[string][]string{"out": {`x={"id":"c","p":true}`, `y={"id":"b","p":true}`}}},
	"text sink": {steps: `[{filter: value.n > 4}, {map: value.id}]`,
		sinks: `{out: {topic: out, value: string}}`,
		want:  map[string][]string{"out": {`b`, `c`}}},
	"string values": {source: "    value: string\n", steps: `[{filter: 'value contains "u2"'}, ` +
		`{map: 'split(value, ",")[0]'}]`,
		want: map[string][]string{"out": {`"{\"id\":\"b\""`}}},
}

// TestOperators runs each operator from a file to topics, through a real broker.
func TestOperators(t *testing.T) {
	for name, tc := range operatorCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.file("in.jsonl", events)
			r.file("users.jsonl", `{"id":"u1","name":"Ann"}`+"\n"+`{"id":"u2","name":"Bob"}`+"\n")
			sinks := tc.sinks
			if sinks == "" {
				sinks = "{out: {topic: out}}"
			}
			st := r.run(fileSource + tc.source + "steps: " + tc.steps + "\nsinks: " + sinks + "\n")
			out := int64(0)
			for topic, want := range tc.want {
				require.Equal(t, want, r.values(topic), topic)
				if topic != "dead" {
					out += int64(len(want))
				}
			}
			require.EqualValues(t, 4, st.RecordsIn)
			require.Equal(t, out, st.RecordsOut)
			require.EqualValues(t, len(tc.want["dead"]), st.DeadLettered)
			require.Zero(t, st.Lag)
			if name == "log" {
				require.Contains(t, r.log.String(), "saw a")
			}
		})
	}
}
