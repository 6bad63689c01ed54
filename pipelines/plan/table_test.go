package plan

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTablesAreExplainedAndDrawn keeps what `explain` and `graph` say of joins and groups of
// tables, with the parts of a join by a foreign key.
func TestTablesAreExplainedAndDrawn(t *testing.T) {
	text, err := os.ReadFile("../check/testdata/examples/tables.yaml")
	require.NoError(t, err)
	p := compile(t, string(text))
	golden(t, "tables_explain.txt", p.Explain())
	golden(t, "tables_graph.mermaid", p.Graph().Mermaid())
	require.Equal(t, DeterminismB, p.Determinism)
	require.Equal(t, []string{"order.table"}, p.Node("open").From, "a filter needs what a row replaces")
	require.Equal(t, []string{"order.table"}, p.Node("settled").From, "late rows are left out there")
	require.Equal(t, "customers", p.Node("named.match").Right, "a join keeps the rows itself")
	require.Equal(t, "refund", p.Node("settled").Right)
	require.Equal(t, []string{"named"}, p.Node("per_city.group").From)
	require.Equal(t, []string{"per_city"}, p.Node("busy").From, "groups tell what they replace")
}

// A table that is joined with itself by a foreign key is read twice: the right rows go through a
// topic, since a task cannot wait for itself.
func TestForeignKeyIntoTheSameTable(t *testing.T) {
	p := compile(t, `version: 1
pipeline: p
sources: {staff: {topic: staff, key: string}}
tables: {employee: {from: staff}, boss: {from: staff}}
steps: [{id: j, from: employee, join: {table: boss, on: value.boss}}]
sinks: {out: {topic: out}}
`)
	require.Equal(t, []string{"staff"}, p.Node("j.right").From)
	require.Equal(t, "j.right", p.Node("j.match").Right)
	require.NotNil(t, p.Topic("p-j-right-repartition"))
}

// Tables that one step joins by key are in one task, so another one that joins them by a foreign
// key needs the topic too; and not where nothing brings them together.
func TestForeignKeyIntoATableThatIsJoinedByKey(t *testing.T) {
	file := func(other string) *Plan {
		return compile(t, `version: 1
pipeline: p
sources: {a: {topic: a, key: string}, b: {topic: b, key: string}, c: {topic: c, key: string}}
tables: {x: {from: a}, y: {from: b}, z: {from: c}}
steps:
  - {id: j, from: x, join: {table: y, on: value.y}}
`+other+`
sinks: {out: {from: j, topic: out}}
`)
	}
	for _, other := range []string{"  - {id: k, from: x, join: {table: y, on: key}}",
		"  - {id: k, from: x, join: {table: z, on: key}}\n" +
			"  - {id: l, from: y, join: {table: z, on: key}}"} {
		p := file(other)
		require.Equal(t, "j.right", p.Node("j.match").Right, other)
		require.NotNil(t, p.Topic("p-j-right-repartition"))
		require.NotEqual(t, p.Node("j.ask").Sub, p.Node("j.match").Sub)
	}
	p := file("  - {id: k, from: x, join: {table: z, on: key}}")
	require.Equal(t, "b", p.Node("j.match").Right)
	require.Nil(t, p.Topic("p-j-right-repartition"))
}

// A state that depends on the foreign key or the group is lost when that changes.
func TestDiffOfTables(t *testing.T) {
	file := func(steps string) *Plan {
		return compile(t, `version: 1
pipeline: p
sources: {a: {topic: a, key: string}, b: {topic: b, key: string}}
tables: {x: {from: a}, y: {from: b}}
steps:
`+steps+`
sinks: {out: {topic: out}}
`)
	}
	for name, tc := range map[string]struct {
		from, to string
		want     Class
	}{
		"foreign key": {`- {id: j, from: x, join: {table: y, on: value.b}}`,
			`- {id: j, from: x, join: {table: y, on: value.c}}`, StateReset},
		"kind of a join by key": {`- {id: j, from: x, join: {table: y, on: key}}`,
			`- {id: j, from: x, join: {table: y, on: key, type: outer}}`, DrainRestart},
		"kind of a join by foreign key": {`- {id: j, from: x, join: {table: y, on: value.b}}`,
			`- {id: j, from: x, join: {table: y, on: value.b, type: left}}`, StateReset},
		"group": {`- {id: g, from: x, aggregate: {by: value.b, fields: {n: count}}}`,
			`- {id: g, from: x, aggregate: {by: value.c, fields: {n: count}}}`, StateReset},
		"a filter before it": {"- {id: f, from: x, filter: value.b > 1}\n" +
			"- {id: g, aggregate: {by: value.b, fields: {n: count}}}",
			"- {id: f, from: x, filter: value.b > 2}\n" +
				"- {id: g, aggregate: {by: value.b, fields: {n: count}}}", DrainRestart},
	} {
		require.Equal(t, tc.want, Diff(file(tc.from), file(tc.to)).Class, name)
	}
}
