package state

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// committed makes a file with one commit, as a killed process leaves it.
func committed(t *testing.T, path string) {
	t.Helper()
	db := open(t, Options{Path: path, BootID: "b"})
	put(t, db, "a", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 7, Commit: []byte("the last commit")}))
	require.NoError(t, db.Flush())
	require.NoError(t, db.Kill())
}

// requireDistrust: the file is put aside and an empty one is in its place.
func requireDistrust(t *testing.T, path string) {
	t.Helper()
	db := open(t, Options{Path: path, BootID: "b"})
	require.Zero(t, db.Meta().Next)
	require.Empty(t, contents(t, db))
	require.FileExists(t, path+asideSuffix)
	require.NoError(t, db.Close())
}

// TestADamagedCommitIsNoticed: what a file says of itself, its position and its commit, has a
// checksum as rows have. With another commit the task would go on somewhere else.
func TestADamagedCommitIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	committed(t, path)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Positive(t, bytes.Count(file, []byte("the last commit")))
	file = bytes.ReplaceAll(file, []byte("the last commit"), []byte("the best commit"))
	require.NoError(t, os.WriteFile(path, file, 0o600))
	requireDistrust(t, path)
}

// TestAFileWithoutANoteIsDistrusted: nobody knows whether it was open when the machine stopped.
func TestAFileWithoutANoteIsDistrusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	committed(t, path)
	require.NoError(t, os.Remove(path+".boot"))
	requireDistrust(t, path)
}
