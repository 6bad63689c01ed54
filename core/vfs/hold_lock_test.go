package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// HoldLock and Lock exclude each other, and HoldLock neither makes the file nor writes into it.
func TestHoldLockLeavesTheFileAlone(t *testing.T) {
	mem := NewMem()
	require.NoError(t, mem.MkdirAll("/d", 0o755))
	for name, test := range map[string]struct {
		fsys FS
		dir  string
	}{
		"os": {OS(), t.TempDir()}, "mem": {mem, "/d"}, "fault": {NewFault(OS()), t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			lock := filepath.Join(test.dir, ".lock")
			none, err := HoldLock(test.fsys, lock)
			require.NoError(t, err)
			require.NoError(t, none.Close())
			_, err = test.fsys.Stat(lock)
			require.ErrorIs(t, err, fs.ErrNotExist)

			owner, err := test.fsys.Lock(lock)
			require.NoError(t, err)
			_, err = HoldLock(test.fsys, lock)
			require.ErrorIs(t, err, ErrLocked)
			locked, ok := errors.AsType[*LockedError](err)
			require.True(t, ok)
			require.NotZero(t, locked.PID)
			require.NoError(t, owner.Close())

			before, err := ReadFile(test.fsys, lock)
			require.NoError(t, err)
			held, err := HoldLock(test.fsys, lock)
			require.NoError(t, err)
			_, err = test.fsys.Lock(lock)
			require.ErrorIs(t, err, ErrLocked)
			require.NoError(t, held.Close())
			after, err := ReadFile(test.fsys, lock)
			require.NoError(t, err)
			require.Equal(t, before, after)
			owner, err = test.fsys.Lock(lock)
			require.NoError(t, err)
			require.NoError(t, owner.Close())
		})
	}
}
