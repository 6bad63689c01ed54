package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core"
)

// doctor --check log: exit code 0 for a sound directory, 4 with findings, 3 for one in use, 2 for
// none; and each finding says where, what and what to do.
func TestDoctorChecksTheLog(t *testing.T) {
	dir := t.TempDir()
	b, err := core.Open(context.Background(), core.Options{DataDir: dir, Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	r := run(t, "doctor", "--check", "log", "--data-dir", dir)
	require.Equal(t, 3, r.exit)
	require.Contains(t, r.err, fmt.Sprintf("%s is in use by process %d", dir, os.Getpid()))
	require.NoError(t, b.Close(context.Background()))

	r = run(t, "doctor", "--check", "log", "--data-dir", dir)
	require.Zero(t, r.exit, r.out)
	require.Contains(t, r.err, "0 damages, 0 notes")

	state := filepath.Join(dir, "raft", "quorum", "quorum-state")
	data, err := os.ReadFile(state)
	require.NoError(t, err)
	data[30] ^= 1
	require.NoError(t, os.WriteFile(state, data, 0o644))
	r = run(t, "doctor", "--check", "log", "--data-dir", dir, "-o", "json")
	require.Equal(t, 4, r.exit)
	v := decode[struct {
		Command string
		OK      bool
		Result  logVerdict
	}](t, r.out)
	require.Equal(t, "doctor", v.Command)
	require.False(t, v.OK)
	require.Len(t, v.Result.Findings, 1)
	f := v.Result.Findings[0]
	require.Equal(t, state, f.File)
	require.Contains(t, f.What, "CRC")
	require.NotEmpty(t, f.Do)
	r = run(t, "doctor", "--check", "log", "--data-dir", dir)
	require.Equal(t, 4, r.exit)
	require.Contains(t, r.out, state)
	now, err := os.ReadFile(state)
	require.NoError(t, err)
	require.Equal(t, data, now, "it only reads")

	r = run(t, "doctor", "--check", "log", "--data-dir", filepath.Join(dir, "nowhere"))
	require.Equal(t, 2, r.exit)
	r = run(t, "doctor", "--check", "log", "--check", "fd.limit", "--data-dir", dir)
	require.Equal(t, 2, r.exit)
}
