package command

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/query"
)

// counted is a pipeline that counts records per key.
func counted(name string) string {
	return fmt.Sprintf(`version: 1
pipeline: %[1]s
sources: {in: {topic: %[1]s-in, key: string}}
steps: [{id: counts, from: in, aggregate: {by: key, unbounded: true, fields: {n: count}}}]
sinks: {out: {topic: %[1]s-out}}
`, name)
}

// TestStateIsShownWithItsPosition goes through the commands for state, against a node.
func TestStateIsShownWithItsPosition(t *testing.T) {
	c := server(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), counted("kept"))
	c.ok("topic", "create", "kept-in", "kept-out", "-p", "1")
	c.feed("a=1\nb=1\na=1\n", "produce", "kept-in", "--key-separator", "=")
	c.ok("pipeline", "apply", file)
	c.waitOut("kept", 3)

	listing := decode[query.Listing](t, c.ok("pipeline", "state", "ls", "kept", "-o", "json"))
	require.Len(t, listing.Stores, 1)
	require.Equal(t, "counts", listing.Stores[0].Node)
	require.Contains(t, c.ok("pipeline", "state", "ls", "kept"), "NODE    STORE")

	var answer query.Answer
	eventually(t, func() bool { // counters move before the commit that they belong to
		answer = decode[query.Answer](t, c.ok("pipeline", "state", "get", "kept", "counts", "a",
			"--fresh", "-o", "json"))
		return len(answer.Rows) == 1 && string(answer.Rows[0].Value) != `{"n":1}`
	}, func() string { return fmt.Sprintf("two of a: %+v", answer.Rows) })
	require.JSONEq(t, `{"n":2}`, string(answer.Rows[0].Value))
	require.EqualValues(t, 3, answer.Partitions[0].Inputs[0].Position)
	r := c.run("pipeline", "state", "get", "kept", "counts")
	require.Zero(t, r.exit, r.err)
	require.Contains(t, r.out, `"b"`)
	require.Contains(t, r.err, "kept-in-0 read to 3, 0 behind")

	export := c.ok("pipeline", "state", "export", "kept", "counts")
	lines := strings.Split(strings.TrimSpace(export), "\n")
	require.Len(t, lines, 4, "a position, two rows and the end")
	require.Equal(t, `{"type":"end","rows":2}`, lines[3])

	r = c.run("pipeline", "state", "get", "kept", "count", "a")
	require.Equal(t, 1, r.exit)
	require.Contains(t, r.err, "error[UNKNOWN_STEP]")
	require.Contains(t, r.err, `did you mean "counts"?`)
	require.Contains(t, c.run("pipeline", "state", "get", "kept", "in").err, "these do: counts")
	require.Contains(t, c.run("pipeline", "state", "get", "kept", "counts.key").err,
		"do:  millstream pipeline state get kept counts")
	r = c.run("pipeline", "state", "get", "kept", "counts", "nobody")
	require.Zero(t, r.exit, r.err)
	require.Contains(t, r.err, "no row with key nobody")
	for _, command := range []string{"get", "export"} {
		r = c.run("pipeline", "state", command, "kept", "counts", "--partition", "7")
		require.Equal(t, 2, r.exit)
		require.Contains(t, r.err, "counts has no task 7")
		require.Contains(t, r.err, "do:  its tasks are 0")
	}
	r = c.run("pipeline", "state", "get", "kept", "counts", "--from", "now")
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, `"now" is not a time`)
	r = c.run("pipeline", "state", "get", "kept", "counts", "--http", "127.0.0.1:1")
	require.Equal(t, 3, r.exit)
	require.Contains(t, r.err, "error[STATE_NOT_READY]")
	r = c.run("pipeline", "state", "ls", "keptt")
	require.Contains(t, r.err, `did you mean "kept"?`)
}
