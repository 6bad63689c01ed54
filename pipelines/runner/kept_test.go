package runner_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/query"
	"github.com/millstream-io/millstream/pipelines/runner"
)

// keptCase is a pipeline over the events and rows that it keeps, worked out by hand.
type keptCase struct {
	source, steps string
	node, key     string
	one           bool // partition
	from, to      string
	// want are the rows, as JSON without partition, in their order.
	want []string
}

// at is a time of 2026-01-01 in ms.
func at(clock string) int64 {
	var h, m, s int64
	if _, err := fmt.Sscanf(clock, "%d:%d:%d", &h, &m, &s); err != nil {
		panic(err)
	}
	return 1767225600000 + 1000*(3600*h+60*m+s)
}

func window(from, to string) string {
	return fmt.Sprintf(`"window":{"start":%d,"end":%d}`, at(from), at(to))
}

func inclusive(from, to string) string {
	return fmt.Sprintf(`"window":{"start":%d,"end":%d,"inclusive":true}`, at(from), at(to))
}

func ts(clock string) string { return fmt.Sprintf(`"ts":%d`, at(clock)) }

var keptCases = map[string]keptCase{
	"table that is looked up": {source: users,
		steps: `[{id: j, from: in, join: {table: users, on: value.who, as: user}}]`,
		node:  "users", key: "u2", want: []string{`{"key":"u2","value":{"id":"u2","name":"Bob"}}`}},
	"tumbling": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: value.who, window: {tumbling: 2m}, late: drop, ` +
			`fields: {n: count, s: {sum: value.n}}}}]`,
		node: "agg", key: `"u1"`, want: []string{
			`{"key":"u1","value":{"n":1,"s":2},` + ts("0:3:10") + `,` + window("0:2:0", "0:4:0") + `}`}},
	"a range of tumbling windows": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', window: {tumbling: 1m}, grace: 1h, late: drop, ` +
			`fields: {s: {sum: value.n}}}}]`,
		node: "agg", key: "all", from: "2026-01-01T00:01:00Z", to: "2026-01-01T00:03:00Z",
		want: []string{
			`{"key":"all","value":{"s":5},` + ts("0:1:10") + `,` + window("0:1:0", "0:2:0") + `}`,
			`{"key":"all","value":{"s":9},` + ts("0:2:10") + `,` + window("0:2:0", "0:3:0") + `}`}},
	"hopping": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', window: {hopping: {size: 2m, every: 1m}}, ` +
			`late: drop, fields: {s: {sum: value.n}}}}]`,
		node: "agg", key: "all", want: []string{
			`{"key":"all","value":{"s":11},` + ts("0:3:10") + `,` + window("0:2:0", "0:4:0") + `}`,
			`{"key":"all","value":{"s":2},` + ts("0:3:10") + `,` + window("0:3:0", "0:5:0") + `}`}},
	"sessions": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: value.who, window: {session: 1m}, late: drop, ` +
			`fields: {d: {distinct: value.id}}}}]`,
		node: "agg", key: "u1", want: []string{
			`{"key":"u1","value":{"d":1},` + ts("0:3:10") + `,` + inclusive("0:3:10", "0:3:10") + `}`}},
	"sliding": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', window: {sliding: 1m}, late: drop, ` +
			`fields: {s: {sum: value.n}}}}]`,
		node: "agg", key: "all", want: []string{
			`{"key":"all","value":{"s":11},` + ts("0:3:10") + `,` + inclusive("0:2:10", "0:3:10") + `}`,
			`{"key":"all","value":{"s":2},` + ts("0:3:10") + `,"window":{"start":1767225730001,` +
				`"end":1767225790001,"inclusive":true}}`}},
	"count windows": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', window: {count: 3}, ttl: 1d, ` +
			`fields: {s: {sum: value.n}}}}]`,
		node: "agg", key: "all", want: []string{
			`{"key":"all","value":{"s":2},` + ts("0:3:10") + `,` + inclusive("0:3:10", "0:3:10") + `}`}},
	"without windows": {source: eventTime,
		steps: `[{id: agg, aggregate: {by: '"all"', unbounded: true, ` +
			`fields: {m: {avg: value.n}, k: {topk: {k: 2, by: value.n, of: value.id}}}}}]`,
		node: "agg", key: "all", want: []string{
			`{"key":"all","value":{"m":4.25,"k":["c","b"]},` + ts("0:3:10") + `}`}},
	"reduce": {source: eventTime,
		steps: `[{id: r, reduce: {by: value.who, ttl: 1d, init: '{ids: []}', ` +
			`update: '{ids: concat(acc.ids, [value.id])}'}}]`,
		node: "r", key: "u1", want: []string{
			`{"key":"u1","value":{"ids":["a","d"]},` + ts("0:3:10") + `}`}},
	"forgotten by its ttl": {source: eventTime, one: true,
		steps: `[{id: agg, aggregate: {by: value.who, ttl: 1m, fields: {n: count}}}]`,
		node:  "agg", key: "u2", want: nil},
	"dedupe": {source: eventTime, steps: `[{id: d, dedupe: {key: value.who, within: 2m}}]`,
		node: "d", key: "u9", want: []string{`{"key":"u9",` + ts("0:2:10") + `}`}},
	"throttle": {source: eventTime,
		steps: `[{id: k, key_by: '"all"'}, {id: t, throttle: {rate: 1/10m, key: key, over: drop}}]`,
		node:  "t", key: "all", want: []string{`{"key":"all","value":1,` + ts("0:0:0") + `}`}},
	"table with a history": {source: eventTime + `  rates: {connector: file,
    config: {path: DIR/rates.jsonl}, key: value.cur, partitions: 3,
    event_time: 'parse_time(value.at, "rfc3339")'}
tables: {rate: {from: rates, history: 1h}}
`,
		steps: `[{id: j, from: in, join: {table: rate, on: '"eur"', as_of: event_time, type: left}}]`,
		node:  "j", key: "eur", want: []string{
			`{"store":"rows","key":"eur","value":{"cur":"eur","at":"2026-01-01T00:02:00Z","n":20},` +
				ts("0:2:0") + `}`,
			`{"store":"history","key":"eur","value":{"cur":"eur","at":"2026-01-01T00:01:00Z","n":10},` +
				ts("0:1:0") + fmt.Sprintf(`,"until":%d}`, at("0:2:0"))}},
	"records of two streams": {source: eventTime + `  others: {connector: file,
    config: {path: DIR/rates.jsonl}, event_time: 'parse_time(value.at, "rfc3339")', partitions: 3}
`,
		steps: `[{id: j, from: in, join: {stream: others, on: '"k"', with_on: '"k"', as: o, ` +
			`within: {before: 1m, after: 1m}}}]`,
		// By slots of a minute, left before right.
		node: "j", key: "k", from: "2026-01-01T00:02:00Z", want: []string{
			`{"store":"buffer","key":"k","value":{"id":"c","n":9,"kind":"x","tags":["t"],"who":"u9",` +
				`"at":"2026-01-01T00:02:10Z"},` + ts("0:2:10") + `,"side":"left"}`,
			`{"store":"buffer","key":"k","value":{"cur":"eur","at":"2026-01-01T00:02:00Z","n":20},` +
				ts("0:2:0") + `,"side":"right"}`,
			`{"store":"buffer","key":"k","value":{"id":"d","n":2,"kind":"z","tags":["r"],"who":"u1",` +
				`"at":"2026-01-01T00:03:10Z"},` + ts("0:3:10") + `,"side":"left"}`}},
}

// TestKeptRowsAreResults asks for rows of every kind of store, of a pipeline that is done.
func TestKeptRowsAreResults(t *testing.T) {
	for name, tc := range keptCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.file("in.jsonl", events)
			r.file("users.jsonl", `{"id":"u1","name":"Ann"}`+"\n"+`{"id":"u2","name":"Bob"}`+"\n")
			r.file("rates.jsonl", `{"cur":"eur","at":"2026-01-01T00:01:00Z","n":10}
{"cur":"eur","at":"2026-01-01T00:02:00Z","n":20}
`)
			source := strings.Replace(fileSource, "on_end: close", "on_end: keep", 1)
			if tc.one {
				source = strings.Replace(source, "partitions: 3", "partitions: 1", 1)
			}
			yaml := source + tc.source + "steps: " + tc.steps + "\nsinks: {out: {topic: out}}\n"
			run := r.runner()
			in, err := run.Prepare(r.ctx(), r.revision(yaml))
			if findings, ok := err.(*runner.ErrFindings); ok {
				t.Fatalf("findings: %+v", findings.Findings)
			}
			require.NoError(t, err)
			require.NoError(t, in.Run(r.ctx()))
			asked := query.Request{Pipeline: "p", Node: tc.node, Key: &tc.key, MaxLag: -1,
				From: -1 << 63, To: 1<<63 - 1}
			c, target := serve(t, run)
			if tc.from != "" {
				asked.From = mustTime(t, tc.from)
			}
			if tc.to != "" {
				asked.To = mustTime(t, tc.to)
			}
			answer, err := c.Ask(r.ctx(), asked)
			require.NoError(t, err)
			var rows []string
			for _, row := range answer.Rows {
				rows = append(rows, withoutPartition(t, row))
			}
			require.Equal(t, tc.want, rows)
			for _, p := range answer.Partitions {
				require.Zero(t, p.Lag)
				require.True(t, p.Whole)
				require.Equal(t, p.End, p.Position)
			}
			exported(t, target, tc, asked)
		})
	}
}

// exported checks that an export has the rows of an answer among its own.
func exported(t *testing.T, target string, tc keptCase, asked query.Request) {
	t.Helper()
	c := query.Client{Address: target}
	asked.Key = nil
	var out bytes.Buffer
	n, err := c.Export(t.Context(), asked, &out)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Equal(t, fmt.Sprintf(`{"type":"end","rows":%d}`, n), lines[len(lines)-1])
	require.Contains(t, lines[0], `{"type":"position","task":"p.`)
	for _, want := range tc.want {
		require.True(t, slices.ContainsFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, `{"type":"row"`) && strings.HasSuffix(line, want[1:])
		}), "%s in %s", want, out.String())
	}
}

// serve answers questions for the state of a runner's pipelines.
func serve(t *testing.T, run *runner.Runner) (c *query.Client, address string) {
	t.Helper()
	s := httptest.NewServer(query.Handler(query.HandlerOptions{Source: run}))
	t.Cleanup(s.Close)
	address = strings.TrimPrefix(s.URL, "http://")
	return &query.Client{Address: address, HTTP: s.Client()}, address
}

func withoutPartition(t *testing.T, row query.Row) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(row))
	_, rest, ok := strings.Cut(strings.TrimSpace(b.String()), ",")
	require.True(t, ok)
	return "{" + rest
}

// get asks over HTTP and returns status and body.
func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + address + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func mustTime(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.UnixMilli()
}
