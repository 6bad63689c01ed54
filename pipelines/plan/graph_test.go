package plan

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const drawn = `version: 1
pipeline: shop
sources:
  orders: {topic: orders, key: string, idle_after: 30s}
tables: {users: {topic: users, key: string}}
steps:
  - filter: value.amount > 1 && value.kind == "<b>"
  - {id: enrich, join: {table: users, on: value.user, as: user}}
  - branch: [{when: value.amount > 100, as: big}, {else: true, as: small}]
  - id: totals
    from: small
    aggregate: {by: value.country, window: {tumbling: 1m}, late: drop, fields: {n: count}}
sinks:
  big: {from: big, topic: big-orders}
  totals: {from: totals, topic: totals}
`

// TestRoutedTopicsAndSkewAreSaid: what a plan cannot list by name, it says in the file's own words.
func TestRoutedTopicsAndSkewAreSaid(t *testing.T) {
	p := compile(t, `version: 1
pipeline: p
sources: {in: {topic: in, key: string, max_skew: 5m}}
steps: [{id: r, route: 'web-{{ value.site }}'}]
`)
	require.Contains(t, p.String(), "web-{{ value.site }}                 routed       "+
		"as records name them, by step r")
	require.Contains(t, p.Explain(), "web-{{ value.site }}                         routed by step r")
	require.Contains(t, p.Explain(), "in is read at most 5m ahead of its slowest partition, of those "+
		"that tasks of the same worker read")
}

func TestGraphs(t *testing.T) {
	g := compile(t, drawn).Graph()
	golden(t, "graph.dot", g.DOT())
	golden(t, "graph.mermaid", g.Mermaid())
	golden(t, "graph.svg", g.SVG())
	boxes := map[string]bool{}
	for _, b := range g.Boxes {
		require.False(t, boxes[b.ID], b.ID)
		boxes[b.ID] = true
	}
	for _, e := range g.Edges {
		require.True(t, boxes[e.From] && boxes[e.To], "%+v", e)
	}
}

func TestExplain(t *testing.T) { golden(t, "explain.txt", compile(t, drawn).Explain()) }

func TestPicturesOfAllExamplesAreXML(t *testing.T) {
	files, err := filepath.Glob("../check/testdata/examples/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		p := compile(t, string(text))
		require.NotEmpty(t, p.Explain())
		d := xml.NewDecoder(strings.NewReader(p.Graph().SVG()))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err, file)
		}
	}
}
