package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRenamedConnectorSourceGoesOn: its topic, its position in the file and the positions of the
// tasks are those of its first id, so no line is read twice.
func TestRenamedConnectorSourceGoesOn(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.dir, "in.jsonl")
	write := func(line string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = f.WriteString(line + "\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	yaml := strings.Replace(`version: 1
pipeline: p
sources: {SOURCE connector: file, config: {path: PATH, follow: true}, partitions: 1, key: value.k}}
steps: [{map: value.v}]
sinks: {out: {topic: out}}
`, "PATH", path, 1)
	write(`{"k":"a","v":1}`)
	s := r.start(strings.Replace(yaml, "SOURCE", "in: {", 1))
	s.await("out", "a=1")
	s.halt()
	s = r.start(strings.Replace(yaml, "SOURCE", "lines: {renamed_from: in,", 1))
	write(`{"k":"b","v":2}`)
	s.await("out", "a=1", "b=2")
	st := s.in.Status()
	require.Equal(t, "lines", st.Sources[0].ID)
	require.Equal(t, "p-in", st.Sources[0].Topic)
	s.halt()
}
