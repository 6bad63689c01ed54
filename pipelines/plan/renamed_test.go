package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// renamedFile is a pipeline with a source, a table of a topic, one of a source, and a step.
func renamedFile(source, table string) string {
	return "version: 1\npipeline: p\nsources: {" + source + ": {topic: in, key: string}, " +
		"users: {topic: users, key: string}}\n" +
		"tables: {" + table + ": {topic: rows}, people: {from: users}}\n" +
		"steps: [{id: n, from: %s, aggregate: {by: upper(key), unbounded: true, fields: {n: count}}},\n" +
		"  {id: j, from: %s, join: {table: %s, on: key}},\n" +
		"  {id: k, join: {table: people, on: key, as: who}}]\nsinks: {out: {topic: out}}\n"
}

// TestRenamedSourcesAndTablesKeepTheirNames: everything that is stored goes by the first id, also
// through a second name, and the plan tells. Without a word the change is refused.
func TestRenamedSourcesAndTablesKeepTheirNames(t *testing.T) {
	text := func(source, table, sourceID, tableID string) string {
		return fmt.Sprintf(renamedFile(source, table), sourceID, sourceID, tableID)
	}
	running := compile(t, text("in", "rows", "in", "rows"))
	for _, list := range []string{"renamed_from: %s, ", "renamed_from: [between, %s], "} {
		source := strings.Replace(text("orders", "lines", "orders", "lines"), "orders: {",
			"orders: {"+fmt.Sprintf(list, "in"), 1)
		p := compile(t, strings.Replace(source, "lines: {", "lines: {"+fmt.Sprintf(list, "rows"), 1))
		d := Diff(running, p)
		require.Equal(t, DrainRestart, d.Class, "%s", d)
		require.Contains(t, d.String(), "was in; what it stored is kept")
		require.Contains(t, d.String(), "was rows; what it stored is kept")
		require.NotContains(t, d.String(), "removed")
		for i, sub := range running.SubTopologies {
			require.Equal(t, sub.Changelog, p.SubTopologies[i].Changelog)
			require.Equal(t, sub.Topics, p.SubTopologies[i].Topics)
		}
		require.Equal(t, storeNames(running), storeNames(p))
	}
	lost := Diff(running, compile(t, text("orders", "rows", "orders", "rows")))
	require.Equal(t, StateReset, lost.Class)
	require.Contains(t, lost.String(), "positions and state are stored under in, its tasks would be "+
		"called orders; if it is what in was: renamed_from: in")
	lost = Diff(running, compile(t, text("in", "lines", "in", "lines")))
	require.Equal(t, StateReset, lost.Class)
	require.Contains(t, lost.String(), "removed; what it stored is lost")
}

func storeNames(p *Plan) (names []string) {
	for _, s := range p.Stores {
		names = append(names, s.Name)
	}
	return names
}

// TestRenamedFromThatSaysNothingIsRefused: the own id, one twice, one that is in use, one that two
// claim.
func TestRenamedFromThatSaysNothingIsRefused(t *testing.T) {
	base := fmt.Sprintf(renamedFile("in", "rows"), "in", "in", "rows")
	already := func(id string) string {
		return fmt.Sprintf("source %q was renamed from %q, which it is called already", "in", id)
	}
	needed := func(id, what string) string {
		return fmt.Sprintf("the id %q is needed for %s, which was renamed", id, what)
	}
	for change, want := range map[[2]string]string{
		{"in: {topic", "in: {renamed_from: in, topic"}:         already("in"),
		{"in: {topic", "in: {renamed_from: [a, b, a], topic"}:  already("a"),
		{"in: {topic", "in: {renamed_from: users, topic"}:      needed("users", `source "in"`),
		{"in: {topic", "in: {renamed_from: n, topic"}:          needed("n", `source "in"`),
		{"rows: {topic", "rows: {renamed_from: people, topic"}: needed("people", `table "rows"`),
		{"users: {topic", "users: {renamed_from: old, topic"}:  needed("old", `step "k"`),
	} {
		text := strings.Replace(base, change[0], change[1], 1)
		require.NotEqual(t, base, text)
		text = strings.Replace(text, "{id: k,", "{id: k, renamed_from: old,", 1)
		p, _, findings := Compile("p.yaml", []byte(text), lang.Options{}, check.Options{})
		require.Nil(t, p, "%v", change)
		require.Contains(t, fmt.Sprint(findings), want)
	}
}
