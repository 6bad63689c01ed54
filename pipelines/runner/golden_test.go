package runner

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
)

// goldenFile is a golden case of the streams layer as a pipeline file.
type goldenFile struct {
	head, sources, tables, steps string
	// close is the bracket behind a window.
	close string
	// pairs: what comes out are pairs of a join; passes: records as they were.
	pairs, passes bool
	// onError is more of the policy than dead letters.
	onError string
	// plain: pairs are shown without their key.
	plain bool
	// ticks: time moves on behind each line, so that what passes between tasks is known to be all.
	ticks bool
}

// goldenOf says a case in the language; nil for what the language has not, or not so.
func goldenOf(d *datadriven.TestData) *goldenFile {
	f := &goldenFile{close: ")"}
	args := map[string]string{}
	for _, a := range d.CmdArgs {
		args[a.Key] = strings.Join(a.Vals, ",")
	}
	ms := func(key string) string { return args[key] + "ms" }
	if args["on_end"] == "close" {
		f.head = "on_end: close\n"
	}
	sided := func() {
		f.sources = "  in0: {topic: in0, key: string, value: string}\n"
		f.steps = `  - {id: l, from: in0, filter: '(headers["side"] ?? "") contains "L"'}` + "\n" +
			`  - {id: r, from: in0, filter: '(headers["side"] ?? "") contains "R"'}` + "\n"
		f.pairs = true
	}
	option := func(key, yaml string) string {
		if args[key] == "" {
			return ""
		}
		return ", " + yaml + ": " + ms(key)
	}
	table := option("history", "history")
	if args["out_of_order"] != "" {
		table = ", out_of_order: ignore"
	}
	switch d.Cmd {
	case "streams":
		sided()
		before, after := "before", "after"
		if args["within"] != "" {
			before, after = "within", "within"
		}
		f.steps += fmt.Sprintf("  - {id: j, from: l, join: {stream: r, on: key, type: %s, as: o, "+
			"late: {topic: late}, within: {before: %s, after: %s%s}}}\n", args["kind"], ms(before),
			ms(after), option("grace", "grace"))
	case "stream-table":
		sided()
		f.tables = "tables: {t: {from: r" + table + "}}\n"
		f.steps += fmt.Sprintf("  - {id: j, from: l, join: {table: t, on: key, type: %s, as: o, "+
			"as_of: event_time, late: {topic: late}%s}}\n", args["kind"], option("grace", "grace"))
	case "tables":
		sided()
		f.tables = "tables: {a: {from: l" + table + "}, b: {from: r" + table + "}}\n"
		f.steps += fmt.Sprintf("  - {id: j, from: a, join: {table: b, on: key, type: %s, as: o}}\n",
			args["kind"])
	case "foreign":
		sided()
		f.ticks = true
		f.tables = "tables: {a: {from: l}, b: {from: r}}\n"
		f.steps += fmt.Sprintf("  - {id: j, from: a, join: {table: b, on: 'value == \"null\" ? nil : "+
			"value', type: %s, as: o}}\n", args["kind"])
	case "join":
		f.sources, f.pairs = "  in0: {topic: in0, key: string, value: string}\n", true
		f.plain = true
		f.tables = "tables: {t: {topic: table, value: string}}\n"
		f.steps = "  - {id: j, from: in0, join: {table: t, on: key, as: o, type: " + args["kind"] + "}}\n"
	case "dedupe":
		f.sources, f.passes = "  in0: {topic: in0, key: string, value: string}\n", true
		f.steps = "  - {id: j, from: in0, dedupe: {key: value, within: " + ms("within") + "}}\n"
	case "aggregate":
		return f.aggregate(args, ms)
	default:
		return nil
	}
	return f
}

// goldenFolds are the aggregators of the cases.
var goldenFolds = map[string]string{"": "count", "sum": "{sum: int(value)}",
	"avg": "{avg: int(value)}", "min": "{min: int(value)}", "max": "{max: int(value)}",
	"first": "{first: value}",
	"last":  "{last: value}", "first-offset": "{first: {of: value, by: offset}}",
	"last-offset": "{last: {of: value, by: offset}}", "distinct": "{distinct: value}"}

func (f *goldenFile) aggregate(args map[string]string, ms func(string) string) *goldenFile {
	var reads []string
	n, _ := strconv.Atoi(args["partitions"])
	for p := range max(1, n) {
		id := fmt.Sprintf("in%d", p)
		disorder := ""
		if args["disorder"] != "" {
			disorder = ", max_lateness: " + ms("disorder")
		}
		f.sources += fmt.Sprintf("  %s: {topic: %s, key: string, value: string%s}\n", id, id, disorder)
		reads = append(reads, id)
	}
	f.steps = "  - {id: in, merge: [" + strings.Join(reads, ", ") + "]}\n"
	if len(reads) == 1 {
		f.steps = "  - {id: in, from: in0, filter: 'true'}\n"
	}
	if args["filter"] != "" {
		f.steps = "  - {id: in, from: in0, filter: int(value) > " + args["filter"] + "}\n"
	}
	from, by, fields := "in", "key", ""
	for i, agg := range strings.Split(args["agg"], ",") {
		fold, ok := goldenFolds[agg]
		if !ok {
			return nil
		}
		if _, table := args["table"]; table {
			fold = strings.ReplaceAll(fold, "int(value)", `'int(split(value, ",")[1])'`)
		}
		fields += fmt.Sprintf("f%d: %s, ", i, fold)
	}
	options, window := "", f.window(args, ms)
	_, table := args["table"]
	switch {
	case table:
		f.tables, from = "tables: {t: {from: in}}\n", "t"
		f.onError = ", by_class: {key: drop}" // a null group drops the row
		by = `split(value, ",")[0] == "null" ? nil : split(value, ",")[0]`
		f.ticks = true
	case window != "" && args["count"] == "":
		late := "{topic: late}"
		if args["lateness"] != "" {
			late = "{topic: late, update: " + ms("lateness") + "}"
		}
		options += ", late: " + late
	case args["ttl"] != "":
		options += ", ttl: " + ms("ttl")
	default:
		options += ", unbounded: true"
	}
	if window != "" {
		options += ", window: " + window
	}
	for key, value := range map[string]string{"grace": ms("grace"), "emit": args["emit"],
		"emit_unchanged": args["emit_unchanged"], "every": "{every: " + ms("every") + "}"} {
		if args[key] != "" {
			options += ", " + strings.Replace(key, "every", "emit", 1) + ": " + value
		}
	}
	f.steps += fmt.Sprintf("  - {id: j, from: %s, aggregate: {by: '%s', fields: {%s}%s}}\n", from, by,
		strings.TrimSuffix(fields, ", "), options)
	if window == "" {
		f.steps += "  - {id: m, map: {x: value}}\n"
	} else {
		f.steps += "  - {id: m, map: {s: window.start, e: window.end, x: value}}\n"
	}
	return f
}

// window says the windows of a case.
func (f *goldenFile) window(args map[string]string, ms func(string) string) string {
	window := ""
	switch {
	case args["session"] != "":
		window, f.close = "{session: "+ms("session")+"}", "]"
	case args["sliding"] != "":
		window, f.close = "{sliding: "+ms("sliding")+"}", "]"
	case args["count"] != "":
		window, f.close = "{count: "+args["count"]+"}", "]"
	case args["advance"] != "":
		window = "{hopping: {size: " + ms("size") + ", every: " + ms("advance") + "}}"
	case args["offset"] != "":
		window = "{tumbling: " + ms("size") + ", offset: " + ms("offset") + "}"
	case args["size"] != "":
		window = "{tumbling: " + ms("size") + "}"
	}
	return window
}

func (f *goldenFile) yaml() string {
	last := "j"
	if f.pairs {
		f.steps += "  - {id: m, map: {l: value, r: o}}\n"
	}
	if strings.Contains(f.steps, "id: m,") {
		last = "m"
	}
	return "version: 1\npipeline: golden\n" + f.head + "on_error: {dlq: dlq" + f.onError +
		"}\nsources:\n" + f.sources +
		f.tables + "steps:\n" + f.steps + "sinks: {out: {from: " + last + ", topic: out}}\n"
}

// show is a result as the golden files have it.
func (f *goldenFile) show(t *testing.T, r streamstest.Record) string {
	key := "<null>"
	if r.Key != nil {
		key = string(r.Key)
	}
	if f.passes {
		return string(r.Value)
	}
	if r.Value == nil && f.pairs {
		return fmt.Sprintf("%s:†@%d", key, r.Timestamp)
	}
	if r.Value == nil {
		return "†" + key
	}
	var v struct {
		L, R *string
		S, E *time.Time
		X    json.RawMessage
	}
	require.NoError(t, json.Unmarshal(r.Value, &v), "%s", r.Value)
	side := func(s *string) string {
		if s == nil {
			return "null"
		}
		return *s
	}
	if f.plain {
		return fmt.Sprintf("(%s,%s)@%d", side(v.L), side(v.R), r.Timestamp)
	}
	if f.pairs {
		return fmt.Sprintf("%s:(%s,%s)@%d", key, side(v.L), side(v.R), r.Timestamp)
	}
	shown := strings.Trim(string(v.X), "{}")
	shown = regexp.MustCompile(`"f\d":`).ReplaceAllString(shown, "")
	shown = strings.ReplaceAll(strings.ReplaceAll(shown, `"`, ""), ",", ";")
	if v.S == nil {
		return fmt.Sprintf("%s=%s@%d", key, shown, r.Timestamp)
	}
	return fmt.Sprintf("[%d,%d%s %s=%s@%d", v.S.UnixMilli(), v.E.UnixMilli(), f.close, key, shown,
		r.Timestamp)
}

// goldenRun runs a case, with a crash after each line or without.
type goldenRun struct {
	f     *goldenFile
	d     *streamstest.Driver
	crash bool
	seen  map[string]int
}

// feed takes a line and returns what it caused.
func (g *goldenRun) feed(t *testing.T, line string) []string {
	var last int64
	for _, one := range strings.Split(line, "; ") {
		switch one {
		case "end":
			g.d.EndOfInput()
			continue
		case "restart":
			require.NoError(t, g.d.Crash())
			continue
		}
		topic, r := goldenLine(t, one, g.f.pairs && !strings.Contains(g.f.tables, "topic:"))
		g.d.Feed(topic, 0, r)
		last = r.Timestamp
	}
	if g.f.ticks && line != "end" && line != "restart" {
		g.d.Feed("in0", 0, record.Record{Timestamp: last + 1, Key: []byte("tick"), Value: nil})
	}
	require.NoError(t, g.d.Run())
	if g.crash {
		require.NoError(t, g.d.Crash())
		require.NoError(t, g.d.Run())
	}
	got := g.next("out", func(r streamstest.Record) string { return g.f.show(t, r) })
	got = append(got, g.next("late", func(r streamstest.Record) string {
		window, _ := r.Header(operator.HeaderLateWindow)
		s, _ := r.Header(operator.HeaderLateStreamTime)
		return fmt.Sprintf("LATE %s S=%s", window, s)
	})...)
	return append(got, g.next("dlq", func(r streamstest.Record) string {
		class, _ := r.Header(operator.HeaderDLQClass)
		return "DLQ " + string(class)
	})...)
}

func (g *goldenRun) next(topic string, show func(streamstest.Record) string) (got []string) {
	list := g.d.Output(topic)
	for _, r := range list[g.seen[topic]:] {
		got = append(got, show(r))
	}
	g.seen[topic] = len(list)
	return got
}

// goldenLine reads "[p1: ]ts key[=value]" or "L ts key=value".
func goldenLine(t *testing.T, line string, sided bool) (topic string, r record.Record) {
	topic = "in0"
	if rest, ok := strings.CutPrefix(line, "p"); ok {
		p, after, _ := strings.Cut(rest, ": ")
		topic, line = "in"+p, after
	}
	side := "LR"
	if line[0] == 'L' || line[0] == 'R' {
		side, line = line[:1], line[2:]
		if side == "R" && !sided {
			topic = "table"
		}
	}
	ts, rest, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(ts, 10, 64)
	require.NoError(t, err)
	key, value, _ := strings.Cut(rest, "=")
	r = record.Record{Timestamp: n, Value: []byte(value),
		Headers: []record.Header{{Key: "side", Value: []byte(side)}}}
	if key != "<null>" {
		r.Key = []byte(key)
	}
	if value == "†" {
		r.Value = nil
	}
	return topic, r
}

// TestGoldensHoldForPipelineFiles says the golden cases of the streams layer, as far as the
// language can, as pipeline files, and expects what they expect. A sink does not write the window
// of a session that is taken back, and min: of the language takes numbers only.
func TestGoldensHoldForPipelineFiles(t *testing.T) {
	files, err := filepath.Glob("../../streams/streamstest/testdata/golden/*.txt")
	require.NoError(t, err)
	window := regexp.MustCompile(`†\[\d+,\d+\] (\w+)`)
	known := regexp.MustCompile(`^(((p\d+: )?([LR] )?-?\d+ [^\n]*|end|restart)(\n|$))+$`)
	ran := 0
	for _, crash := range []bool{false, true} {
		for _, file := range files {
			t.Run(fmt.Sprint(filepath.Base(file), " crash ", crash), func(t *testing.T) {
				var g *goldenRun
				datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
					if d.Cmd != "feed" {
						g = nil
						if f := goldenOf(d); f != nil {
							b, _ := assembled(t, f.yaml(), nil)
							driver, err := streamstest.New(b, streamstest.Options{})
							require.NoError(t, err)
							g = &goldenRun{f: f, d: driver, crash: crash, seen: map[string]int{}}
						}
						return d.Expected
					}
					if g == nil || strings.Contains(d.Input, " a=x") || !known.MatchString(d.Input) {
						return d.Expected
					}
					ran++
					var out []string
					for _, line := range strings.Split(d.Input, "\n") {
						out = append(out, strings.TrimRight(line+" => "+
							strings.Join(g.feed(t, line), ", "), " "))
					}
					got := strings.Join(out, "\n") + "\n"
					if got == window.ReplaceAllString(d.Expected, "†$1") {
						return d.Expected
					}
					return got
				})
			})
		}
	}
	require.GreaterOrEqual(t, ran, 2*50)
}
