package plan

import (
	"flag"
	"os"
	"path/filepath"
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
	require.Equal(t, DeterminismB, p.Determinism)
}
