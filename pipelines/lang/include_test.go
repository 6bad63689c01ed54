package lang

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInclude: what files share is in the pipeline as if it stood there, its own wins, and each
// mistake is told in the file it is in.
func TestInclude(t *testing.T) {
	files := map[string]string{
		"common.yaml": "version: 1\nvars: {least: 5, site: de}\ntemplates:\n  keep:\n" +
			"    steps: [{id: k, filter: value.n > vars.least}]\n",
		"more.yaml":  "schemas: {S: {fields: {n: int64}}}\nvars: {site: fr}\n",
		"wrong.yaml": "vars: {a: 1}\nsources: {x: {topic: x}}\nschemes: {}\n",
	}
	load := func(include string) (*Pipeline, []string) {
		p, findings := Load("p.yaml", []byte("version: 1\npipeline: p\ninclude: "+include+
			"\nvars: {least: 7}\nsources: {a: {topic: a}}\nsteps: [{id: f, use: keep}]\n"+
			"sinks: {b: {topic: b}}\n"), Options{Include: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, errors.New("there is no such file")
		}})
		var told []string
		for _, f := range findings {
			told = append(told, fmt.Sprintf("%s:%d:%d %s %s", f.File, f.Line, f.Col, f.Code, f.Message))
		}
		return p, told
	}
	p, told := load("common.yaml")
	require.Empty(t, told)
	least, _ := p.Vars.Get("least")
	require.EqualValues(t, 7, least.Int, "the pipeline's own")
	site, _ := p.Vars.Get("site")
	require.Equal(t, "de", site.Text)
	require.Equal(t, ID("f"), p.Steps.Items[0].ID.Value)
	require.Equal(t, "value.n > vars.least", p.Steps.Items[0].Filter.Text)
	require.Equal(t, "common.yaml", p.Steps.Items[0].Filter.Pos.File)

	_, told = load("[common.yaml, more.yaml]")
	require.Equal(t, []string{"more.yaml:2:8 E103 vars.site is in common.yaml, too"}, told)
	_, told = load("[common.yaml, wrong.yaml]")
	require.Equal(t, []string{`wrong.yaml:2:1 E102 an included file has no key "sources"`,
		`wrong.yaml:3:1 E101 an included file has no key "schemes"`}, told)
	_, told = load("comon.yaml")
	require.Contains(t, told[0], "p.yaml:3:10 E006 the file comon.yaml cannot be included")
}

// TestTopicsOfOneSource: they are sources of their own, and a step with the id merges them.
func TestTopicsOfOneSource(t *testing.T) {
	p, findings := Load("p.yaml", []byte("version: 1\npipeline: p\nsources:\n"+
		"  in: {topics: [orders.de, orders.fr], key: string}\nsteps: [{filter: value.n > 1}]\n"+
		"sinks: {b: {topic: b}}\n"), Options{})
	require.Empty(t, findings)
	require.Equal(t, []string{"in-orders_de", "in-orders_fr"}, p.Sources.Keys())
	require.Equal(t, Topic("orders.fr"), p.Sources.Entries[1].Value.Topic.Value)
	require.Equal(t, "merge", p.Steps.Items[0].Operator)
	require.Equal(t, ID("in"), p.Steps.Items[0].ID.Value)

	// A pattern stands for itself until a cluster is asked; then it is a group, also of one topic.
	text := []byte("version: 1\npipeline: p\nsources:\n  in: {topics: 'orders[.].*', key: string}\n" +
		"steps: [{filter: value.n > 1}]\nsinks: {b: {topic: b}}\n")
	p, findings = Load("p.yaml", text, Options{})
	require.Empty(t, findings)
	require.Equal(t, []string{"in"}, p.Sources.Keys())
	require.Equal(t, []Pattern{{Source: "in", Text: "orders[.].*", Pos: p.Patterns[0].Pos}}, p.Patterns)
	p, findings = Load("p.yaml", text, Options{Matched: map[string][]string{"in": {"orders.de"}}})
	require.Empty(t, findings)
	require.Equal(t, []string{"in-orders_de"}, p.Sources.Keys())
	require.Equal(t, "in", p.Sources.Entries[0].Value.Group)
	require.Equal(t, "merge", p.Steps.Items[0].Operator)
	for topic, want := range map[string]bool{"orders.de": true, "orders.": true, "xorders.de": false,
		"orders-de": false, "__orders.de": false, "orders.x-changelog": false} {
		require.Equal(t, want, p.Patterns[0].Matches(topic), topic)
	}

	for text, want := range map[string]string{
		`"orders-("`:               `E106 "orders-(" is no topic and no pattern`,
		`[a, b], topic: c`:         "E111 a source has topics: or topic:, not both",
		`[]`:                       "E106 topics: must not be empty",
		`[a, "no topic"]`:          "E109",
		`[a], connector: generate`: "E111 a source has topics: or connector:, not both",
	} {
		_, findings := Load("p.yaml", []byte("version: 1\npipeline: p\nsources:\n  in: {topics: "+text+
			"}\nsinks: {b: {topic: b}}\n"), Options{})
		require.NotEmpty(t, findings, text)
		require.Contains(t, fmt.Sprintf("%s %s", findings[0].Code, findings[0].Message), want, text)
		require.Equal(t, 4, findings[0].Line)
	}
}
