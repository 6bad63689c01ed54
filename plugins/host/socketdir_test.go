//go:build unix

package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSweepRemovesOnlyWhatNoHostHolds(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	old := time.Now().Add(-time.Hour)
	made := func(name string) string {
		dir := filepath.Join(base, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
		require.NoError(t, os.Chtimes(dir, old, old))
		return dir
	}
	stale, held, foreign := made("ms-plugin-1"), made("ms-plugin-2"), made("other-3")
	fresh := made("ms-plugin-4") // its host may be about to lock it
	require.NoError(t, os.Chtimes(fresh, time.Now(), time.Now()))
	lock, err := os.OpenFile(filepath.Join(held, "lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, flock(lock))
	sweepSockets(base)
	require.NoDirExists(t, stale)
	require.DirExists(t, held)
	require.DirExists(t, foreign)
	require.DirExists(t, fresh)
}
