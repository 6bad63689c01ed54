package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlanAndApplyLookAtTheCluster: what could only fail is refused before it is applied.
func TestPlanAndApplyLookAtTheCluster(t *testing.T) {
	c := server(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled("look"))
	c.ok("topic", "create", "loook-in", "-p", "1")
	for _, verb := range []string{"plan", "apply"} {
		got := c.run("pipeline", verb, file)
		require.Equal(t, 2, got.exit, verb)
		require.Contains(t, got.err, file+`:3:28: error[E501]: the topic "look-in" does not exist`)
		require.Contains(t, got.err, `did you mean "loook-in"?`)
	}
	require.NotContains(t, c.ok("pipeline", "ls"), "look", "nothing was applied")

	c.ok("topic", "create", "look-in", "-p", "1")
	c.ok("pipeline", "plan", file)
	c.ok("pipeline", "apply", file)
	other := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"),
		strings.Replace(doubled("look"), "pipeline: look", "pipeline: second", 1))
	got := c.run("pipeline", "apply", other)
	require.Equal(t, 2, got.exit)
	require.Contains(t, got.err, `error[E504]: the pipeline "look" writes the topic "look-out" already`)
	shared := writeFile(t, other, strings.Replace(strings.Replace(doubled("look"), "pipeline: look",
		"pipeline: second", 1), "topic: look-out}", "topic: look-out, shared: true}", 1))
	c.ok("pipeline", "apply", shared)
}
