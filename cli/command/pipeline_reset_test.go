package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/query"
)

// counts are the rows of counted's step, key to value.
func (c cli) counts(name string) map[string]string {
	c.t.Helper()
	r := c.run("pipeline", "state", "get", name, "counts", "--fresh", "-o", "json")
	if r.exit != 0 {
		return nil
	}
	rows := map[string]string{}
	for _, row := range decode[query.Answer](c.t, r.out).Rows {
		var value bytes.Buffer
		require.NoError(c.t, json.Compact(&value, row.Value))
		rows[string(row.Key)] = value.String()
	}
	return rows
}

func (c cli) waitCounts(name string, want map[string]string) {
	c.t.Helper()
	eventually(c.t, func() bool { return fmt.Sprint(c.counts(name)) == fmt.Sprint(want) },
		func() string { return fmt.Sprintf("%v, have %v", want, c.counts(name)) })
}

func appliedCounts(t *testing.T, c cli, name string) (file string) {
	t.Helper()
	file = writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), counted(name))
	c.ok("topic", "create", name+"-in", name+"-out", "-p", "1")
	c.feed("a=1\nb=1\na=1\n", "produce", name+"-in", "--key-separator", "=")
	c.ok("pipeline", "apply", file)
	c.waitCounts(name, map[string]string{`"a"`: `{"n":2}`, `"b"`: `{"n":1}`})
	return file
}

// failure waits until a pipeline has failed and returns why.
func (c cli) failure(name string) string {
	c.t.Helper()
	c.waitState(name, deploy.Failed)
	return decode[pipelineStatus](c.t, c.ok("pipeline", "status", name, "-o", "json")).Error
}

// TestResetIsTheWayBack: a changelog that was deleted is an error that names the command which gets
// the pipeline going again, and that does.
func TestResetIsTheWayBack(t *testing.T) {
	c := server(t)
	appliedCounts(t, c, "back")
	c.ok("pipeline", "stop", "back")
	c.waitState("back", deploy.Stopped)
	c.ok("topic", "delete", "back-in-changelog", "--yes")
	c.ok("pipeline", "start", "back")
	why := c.failure("back")
	for _, part := range []string{"task back.in.0", "changelog topic id", "nothing was changed",
		"millstream pipeline reset back --to start"} {
		require.Contains(t, why, part)
	}
	r := c.run("pipeline", "reset", "back")
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, "--to committed")
	r = c.run("pipeline", "reset", "back", "--to", "start")
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, "error[NOT_CONFIRMED]")

	r = c.run("pipeline", "reset", "back", "--to", "start", "--yes")
	require.Zero(t, r.exit, r.err)
	require.Contains(t, r.err, "back-in-0 is read from 0")
	require.Contains(t, r.err, "written again to out")
	c.waitCounts("back", map[string]string{`"a"`: `{"n":2}`, `"b"`: `{"n":1}`})
	require.Contains(t, c.ok("topic", "ls", "--internal"), "back.1-in-changelog")

	// Again, where it stands: what comes is counted from nothing.
	c.ok("pipeline", "reset", "back", "--to", "committed", "--yes")
	c.feed("a=1\n", "produce", "back-in", "--key-separator", "=")
	c.waitCounts("back", map[string]string{`"a"`: `{"n":1}`})
	topics := c.ok("topic", "ls", "--internal")
	require.Contains(t, topics, "back.2-in-changelog")
	require.NotContains(t, topics, "back.1-in-changelog", "what is of no use any more goes")
	c.ok("pipeline", "stop", "back")
	c.waitState("back", deploy.Stopped)
	c.ok("pipeline", "start", "back") // the generation stays
	c.feed("a=1\n", "produce", "back-in", "--key-separator", "=")
	c.waitCounts("back", map[string]string{`"a"`: `{"n":2}`})
}

// TestDropStateIsNamedWhereStateWouldBeLost: the command a refused change names does it.
func TestDropStateIsNamedWhereStateWouldBeLost(t *testing.T) {
	c := server(t)
	file := appliedCounts(t, c, "drop")
	writeFile(t, file, strings.Replace(counted("drop"), "fields: {n: count}",
		"fields: {n: count, last: {last: offset}}", 1))
	r := c.run("pipeline", "apply", file)
	require.Equal(t, 5, r.exit)
	require.Contains(t, r.err, "error[STATE_LOSS]")
	require.Contains(t, r.err, "millstream pipeline apply "+file+" --drop-state --to start")
	c.ok("pipeline", "apply", file, "--drop-state", "--to", "start", "--yes")
	c.waitCounts("drop", map[string]string{`"a"`: `{"n":2,"last":2}`, `"b"`: `{"n":1,"last":1}`})
	require.Equal(t, 2, decode[pipelineStatus](t,
		c.ok("pipeline", "status", "drop", "-o", "json")).Revision)

	// What it has left goes at once, whoever waits: nothing leads back to it.
	writeFile(t, file, counted("drop"))
	r = c.run("pipeline", "apply", file, "--drop-state", "--to", "start", "--yes", "--no-wait")
	require.Zero(t, r.exit, r.err)
	topics := c.ok("topic", "ls", "--internal")
	require.NotContains(t, topics, "drop.1-in-changelog")
	c.waitCounts("drop", map[string]string{`"a"`: `{"n":2}`, `"b"`: `{"n":1}`})
	require.Contains(t, c.ok("topic", "ls", "--internal"), "drop.2-in-changelog")
}

// TestSkipLostGoesOnBehindWhatWasDeleted: records that retention took before they were read are an
// error with their place; the command in it goes on with the state.
func TestSkipLostGoesOnBehindWhatWasDeleted(t *testing.T) {
	c := server(t)
	appliedCounts(t, c, "skip")
	c.ok("pipeline", "stop", "skip")
	c.waitState("skip", deploy.Stopped)
	c.feed("a=1\na=1\n", "produce", "skip-in", "--key-separator", "=")
	c.deleteRecords("skip-in", 4)
	c.ok("pipeline", "start", "skip")
	why := c.failure("skip")
	for _, part := range []string{"task skip.in.0", "next record of skip-in-0 is 3",
		"the log has [4, 5)", "millstream pipeline start skip --skip-lost"} {
		require.Contains(t, why, part)
	}
	c.ok("pipeline", "start", "skip", "--skip-lost")
	c.waitCounts("skip", map[string]string{`"a"`: `{"n":3}`, `"b"`: `{"n":1}`})
}

// deleteRecords deletes what a topic of one partition has before an offset.
func (c cli) deleteRecords(topic string, before int64) {
	c.t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, before, -1)
	deleted, err := kadm.NewClient(c.kafka()).DeleteRecords(c.t.Context(), offsets)
	require.NoError(c.t, err)
	require.NoError(c.t, deleted.Error())
}

// TestRenamedStepKeepsItsState: an id that is only replaced would lose what is stored under it, and
// is refused; renamed_from keeps it, behind a topic of its own too, and through a second name.
func TestRenamedStepKeepsItsState(t *testing.T) {
	c := server(t)
	yaml := func(step string) string {
		return strings.Replace(strings.Replace(counted("renamed"), "id: counts", step, 1), "by: key",
			"by: upper(key)", 1)
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), yaml("id: counts"))
	c.ok("topic", "create", "renamed-in", "renamed-out", "-p", "1")
	c.feed("a=1\na=1\n", "produce", "renamed-in", "--key-separator", "=")
	c.ok("pipeline", "apply", file)
	c.waitCounts("renamed", map[string]string{`"A"`: `{"n":2}`})
	writeFile(t, file, yaml("id: total"))
	r := c.run("pipeline", "apply", file)
	require.Equal(t, 5, r.exit)
	require.Contains(t, r.err, "renamed_from: OLD-ID")
	for i, step := range []string{"id: total, renamed_from: counts",
		"id: sum, renamed_from: [total, counts]"} {
		writeFile(t, file, yaml(step))
		require.Contains(t, c.ok("pipeline", "plan", file), "what it stored is kept")
		c.ok("pipeline", "apply", file)
		c.feed("a=1\n", "produce", "renamed-in", "--key-separator", "=")
		id := strings.Fields(strings.Trim(step, ","))[1]
		eventually(t, func() bool {
			r := c.run("pipeline", "state", "get", "renamed", strings.TrimSuffix(id, ","), "A", "--fresh")
			return strings.Contains(r.out, fmt.Sprintf(`{"n":%d}`, 3+i))
		}, func() string { return "the count goes on under the new name" })
	}
	writeFile(t, file, strings.Replace(yaml("id: total, renamed_from: counts"), "steps: [",
		"steps: [{id: counts, filter: 'true'}, ", 1))
	r = c.run("pipeline", "lint", file)
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.out, `the id "counts" is needed for step "total"`)
}

// TestRenamedSourceAndTableKeepTheirState: counts and rows go on under new names of what they come
// from; renamed without a word the change is refused with what to write.
func TestRenamedSourceAndTableKeepTheirState(t *testing.T) {
	c := server(t)
	yaml := func(source, table string) string {
		name := func(s string) string { id, _, _ := strings.Cut(s, ":"); return id }
		return fmt.Sprintf(`version: 1
pipeline: moved-names
sources: {%s topic: moved-names-in, key: string}}
tables: {%s topic: moved-names-rows, key: string}}
steps: [{id: found, from: %s, join: {table: %s, on: key, as: row}},
  {id: counts, aggregate: {by: row.g, unbounded: true, fields: {n: count}}}]
sinks: {out: {topic: moved-names-out}}
`, source, table, name(source), name(table))
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), yaml("in: {", "rows: {"))
	for _, topic := range []string{"in", "rows", "out"} {
		c.ok("topic", "create", "moved-names-"+topic, "-p", "1")
	}
	c.feed(`a={"g":"x"}`+"\n", "produce", "moved-names-rows", "--key-separator", "=")
	c.feed("a=1\na=1\n", "produce", "moved-names-in", "--key-separator", "=")
	c.ok("pipeline", "apply", file)
	c.waitCounts("moved-names", map[string]string{`"x"`: `{"n":2}`})
	for _, text := range []string{yaml("orders: {", "rows: {"), yaml("in: {", "lines: {")} {
		writeFile(t, file, text)
		r := c.run("pipeline", "apply", file)
		require.Equal(t, 5, r.exit)
		require.Contains(t, r.err, "renamed_from: OLD-ID")
		require.Contains(t, r.err, "--drop-state --to committed")
	}
	writeFile(t, file, yaml("orders: {renamed_from: in,", "lines: {renamed_from: rows,"))
	shown := c.ok("pipeline", "plan", file)
	require.Contains(t, shown, "was in; what it stored is kept")
	require.Contains(t, shown, "was rows; what it stored is kept")
	c.ok("pipeline", "apply", file)
	c.feed("a=1\n", "produce", "moved-names-in", "--key-separator", "=")
	c.waitCounts("moved-names", map[string]string{`"x"`: `{"n":3}`})
	r := c.run("pipeline", "state", "get", "moved-names", "lines", "a", "--fresh")
	require.Contains(t, r.out, `{"g":"x"}`, "%s", r.err)
	var st pipelineStatus
	eventually(t, func() bool { // it is told now and then
		st = decode[pipelineStatus](t, c.ok("pipeline", "status", "moved-names", "-o", "json"))
		return st.RecordsIn == 3 && st.Sources[0].ID == "orders"
	}, func() string { return fmt.Sprintf("counters go on, too: %+v", st) })
}
