package plan

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/lang"
)

var update = flag.Bool("update", false, "rewrite golden files")

// compile plans a file that must be without errors.
func compile(t *testing.T, text string) *Plan {
	t.Helper()
	p, tree, findings := Compile("p.yaml", []byte(text), lang.Options{}, check.Options{})
	require.NotNil(t, p, "%s", check.Render(findings, tree.File))
	return p
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestFlightsPlan(t *testing.T) {
	text, err := os.ReadFile("../check/testdata/flights/pipeline.yaml")
	require.NoError(t, err)
	p := compile(t, string(text))
	golden(t, "flights.txt", p.String())

	require.Equal(t, []string{"airport"}, p.Node("punctuality").Carry,
		"the aggregate behind the plugin reads the row")
	require.Equal(t, []string{"airport"}, p.Node("located").Carry)
	require.Empty(t, p.Node("per_state").Carry)
	require.False(t, p.Node("rows").CarryWindow, "rows reads the window, nothing after it")
	require.True(t, p.Node("per_state").CarryWindow)
	require.EqualValues(t, 6, p.SubTopologies[0].Partitions)
	require.EqualValues(t, 6, p.SubTopologies[1].Partitions)
	require.Equal(t, []string{"flights", "airports"}, p.SubTopologies[0].CoPartitioned)
	require.True(t, p.Source("airports").TableOnly)
	require.Equal(t, []string{"per_state.key"}, p.Node("per_state").From)
	require.Equal(t, DeterminismD, p.Determinism, "airports count as they arrive")
}

const base = `version: 1
pipeline: p
vars: {min: 1}
plugins: {fraud: {source: ./fraud}}
sources:
  orders: {topic: orders, key: string, value: json}
  users: {connector: file, config: {password: '${secret:pw}'}, topic: users, key: value.id}
tables: {users: {from: users}}
on_error: {dlq: p.dlq}
steps:
  - {id: big, filter: value.amount > vars.min, from: orders}
  - {id: named, join: {table: users, on: value.user, as: user, type: left}}
  - id: totals
    aggregate: {by: user?.tier, window: {tumbling: 1m}, fields: {n: count, s: {sum: value.amount}}}
sinks:
  out: {topic: totals}
  log: {from: big, topic: big}
`

func TestRepartitionsWhereTheKeyIsAnother(t *testing.T) {
	p := compile(t, base)
	require.Equal(t, KindKeyBy, p.Node("named.key").Kind)
	require.True(t, p.Node("named.key").Implicit)
	require.Equal(t, "p-named-key-repartition", p.Node("named.key").KeyBy.Topic)
	require.Equal(t, []string{"big"}, p.Node("named.key").From)
	require.Equal(t, []string{"named.key"}, p.Node("named").From)
	require.Equal(t, []string{"user"}, p.Node("named").Carry)
}

func TestSameTextIsTheCurrentKey(t *testing.T) {
	for name, c := range map[string]struct {
		steps string
		nodes []string
	}{
		"by the source's key": {`[{id: a, aggregate: {by: key, late: drop, window: {tumbling: 1m},
			fields: {n: count}}}]`, []string{"a"}},
		"no by": {`[{id: a, aggregate: {late: drop, window: {tumbling: 1m}, fields: {n: count}}}]`,
			[]string{"a"}},
		"after key_by of the same text": {`[{id: k, key_by: value.x}, {id: a, aggregate: {by: value.x,
			late: drop, window: {tumbling: 1m}, fields: {n: count}}}]`, []string{"k", "a"}},
		"the field was set in between": {`[{id: k, key_by: value.x}, {id: s, set: {x: "1"}},
			{id: a, aggregate: {by: value.x, late: drop, window: {tumbling: 1m}, fields: {n: count}}}]`,
			[]string{"k", "s", "a.key", "a"}},
		"another field was set": {`[{id: k, key_by: value.x}, {id: s, set: {xy: "1"}},
			{id: a, aggregate: {by: value.x, late: drop, window: {tumbling: 1m}, fields: {n: count}}}]`,
			[]string{"k", "s", "a"}},
		"the value was mapped": {`[{id: k, key_by: value.x}, {id: m, map: {x: value.x}},
			{id: a, aggregate: {by: value.x, late: drop, window: {tumbling: 1m}, fields: {n: count}}}]`,
			[]string{"k", "m", "a.key", "a"}},
	} {
		p := compile(t, "version: 1\npipeline: p\nsources: {in: {topic: in, key: string}}\n"+
			"steps: "+c.steps+"\nsinks: {out: {topic: out}}\n")
		var ids []string
		for _, n := range p.Nodes {
			ids = append(ids, n.ID)
		}
		require.Equal(t, c.nodes, ids, name)
	}
}

func TestPartitionsFollowTheTable(t *testing.T) {
	p := compile(t, base)
	require.Equal(t, "", p.Topic("users").SameAs)
	require.Equal(t, "users", p.Topic("p-named-key-repartition").SameAs,
		"the stream moves to the table's partitions, not the table to the stream's")
	require.Equal(t, []string{"p-named-key-repartition", "users"}, p.SubTopologies[1].CoPartitioned)
	require.True(t, p.Topic("users").Compacted)
	require.False(t, p.Topic("orders").Create)
}

func TestGuarantees(t *testing.T) {
	steps := func(s string) *Plan {
		return compile(t, "version: 1\npipeline: p\nsources: {in: {topic: in, key: string}}\n"+
			"steps: "+s+"\nsinks: {out: {topic: out}, file: {connector: file}}\n")
	}
	p := steps(`[{filter: value.x == 1}]`)
	require.Equal(t, "exactly once (transactions)", p.Sinks[0].Guarantee)
	require.Contains(t, p.Sinks[1].Guarantee, "at least once, unless connector file")
	require.Equal(t, DeterminismA, p.Determinism)
	p = steps(`[{id: a, set: {at: processing_time()}}, {id: b, filter: value.x == 1}]`)
	require.Equal(t, "exactly once (transactions)", p.Sinks[0].Guarantee)
	require.Equal(t, DeterminismD, p.Determinism)
	require.Equal(t, DeterminismB, steps(`[{id: k, key_by: value.x}]`).Determinism)
}

func TestDiff(t *testing.T) {
	same := Diff(compile(t, base), compile(t, base))
	require.Equal(t, Same, same.Class)
	require.Equal(t, "no change\n", same.String())

	for name, c := range map[string]struct {
		old, new string
		class    Class
		changed  string
	}{
		"filter":    {"value.amount > vars.min", "value.amount >= vars.min", DrainRestart, "step big"},
		"variable":  {"vars: {min: 1}", "vars: {min: 2}", DrainRestart, "step big"},
		"late":      {"by: user?.tier,", "by: user?.tier, late: drop,", DrainRestart, "step totals"},
		"window":    {"tumbling: 1m", "tumbling: 2m", StateReset, "step totals"},
		"fold":      {"sum: value.amount", "max: value.amount", StateReset, "step totals"},
		"group":     {"by: user?.tier", "by: user?.name", StateReset, "step totals"},
		"renamed":   {"id: totals", "id: totals2", StateReset, "step totals"},
		"connector": {"password: '${secret:pw}'", "user: x", DrainRestart, "source users"},
		"sink":      {"topic: big}", "topic: big2}", DrainRestart, "sink log"},
		"plugin":    {"source: ./fraud", "source: ./fraud2", DrainRestart, "plugin fraud"},
		"resources": {"on_error:", "resources: {commit_interval: 1s}\non_error:", DrainRestart,
			"pipeline p"},
	} {
		text := strings.Replace(base, c.old, c.new, 1)
		require.NotEqual(t, base, text, name)
		if name == "plugin" {
			text = strings.Replace(text, "- id: totals", "- {id: x, plugin: {use: fraud}}\n"+
				"  - id: totals", 1)
		}
		running := base
		if name == "plugin" {
			running = strings.Replace(base, "- id: totals", "- {id: x, plugin: {use: fraud}}\n"+
				"  - id: totals", 1)
		}
		d := Diff(compile(t, running), compile(t, text))
		require.Equal(t, c.class, d.Class, "%s: %s", name, d)
		require.Contains(t, changes(d), c.changed, name)
		require.NotEqual(t, same.Hash, d.Hash, name)
	}

	fresh := Diff(nil, compile(t, base))
	require.NotContains(t, fresh.String(), "drain", "nothing runs that could be")
	require.Contains(t, fresh.String(), "together: new   plan "+fresh.Hash)
	require.Equal(t, DrainRestart, fresh.Class)
	require.Contains(t, fresh.String(), "+ step   totals")
}

// TestDiffSaysOfATableWhatItKeeps: no key, window or field of a step is changed.
func TestDiffSaysOfATableWhatItKeeps(t *testing.T) {
	text := func(topic string) string {
		return "version: 1\npipeline: p\nsources: {in: {topic: in, key: string}}\n" +
			"tables: {t: {topic: " + topic + "}}\nsteps: [{id: j, join: {table: t, on: key}}]\n" +
			"sinks: {out: {topic: out}}\n"
	}
	d := Diff(compile(t, text("a")), compile(t, text("b")))
	require.Equal(t, StateReset, d.Class)
	require.Contains(t, d.String(), "its topic, source or formats changed")
	require.NotContains(t, d.String(), "window")
}

func changes(d *Difference) []string {
	var out []string
	for _, c := range d.Changes {
		out = append(out, c.Part+" "+c.ID)
	}
	return out
}

func TestPlanShowsNoSecret(t *testing.T) {
	opts := lang.Options{Secret: func(string) (string, error) { return "canary", nil }}
	p, _, findings := Compile("p.yaml", []byte(base), opts, check.Options{})
	require.NotNil(t, p, findings)
	require.Contains(t, string(p.Source("users").Connector.Config.JSON()), "canary")
	other := lang.Options{Secret: func(string) (string, error) { return "other", nil }}
	q, _, _ := Compile("p.yaml", []byte(base), other, check.Options{})
	require.Equal(t, p.Fingerprint, q.Fingerprint, "a secret is not part of the fingerprint")
	require.NotContains(t, p.String(), "canary")
	require.NotContains(t, Diff(nil, p).String(), "canary")
}

func TestExamplesPlan(t *testing.T) {
	files, err := filepath.Glob("../check/testdata/examples/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		golden(t, strings.TrimSuffix(filepath.Base(file), ".yaml")+".txt",
			compile(t, string(text)).String())
	}
}

// FuzzCompile: whatever the file, no panic, and a plan exactly when there is no error.
func FuzzCompile(f *testing.F) {
	f.Add([]byte(base))
	files, _ := filepath.Glob("../check/testdata/*/*.yaml")
	mistakes, _ := filepath.Glob("../check/testdata/mistakes/*.txt")
	for _, file := range append(files, mistakes...) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if filepath.Ext(file) == ".yaml" {
			f.Add(text)
			continue
		}
		for part := range strings.SplitSeq(string(text), "\n\n") {
			_, yaml, _ := strings.Cut(part, "\nlint")
			_, yaml, _ = strings.Cut(yaml, "\n")
			yaml, _, _ = strings.Cut(yaml, "----\n")
			f.Add([]byte(yaml))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, tree, findings := Compile("f", text, lang.Options{
			Env: func(string) (string, bool) { return "", false }}, check.Options{})
		if (p == nil) != lang.HasErrors(findings) {
			t.Fatalf("plan %v, findings %v", p != nil, findings)
		}
		_ = check.Render(findings, tree.File)
		if p == nil {
			return
		}
		if p.String() == "" || Diff(p, p).Class != Same {
			t.Fatal("a plan differs from itself")
		}
		for _, n := range p.Nodes {
			for _, id := range n.From {
				if p.Node(id) == nil && p.Source(id) == nil && !hasArm(p, id) {
					t.Fatalf("%s reads %s, which is not there", n.ID, id)
				}
			}
		}
	})
}

func hasArm(p *Plan, id string) bool {
	for _, n := range p.Nodes {
		for _, a := range n.Arms {
			if a.ID == id {
				return true
			}
		}
	}
	return false
}
