package state

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs/smalldisk"
)

// TestDiskFullKeepsWhatIsCommitted runs in a process that mounts a file system of 4 MiB, and fills
// it: the kernel refuses writes of bbolt with ENOSPC.
func TestDiskFullKeepsWhatIsCommitted(t *testing.T) {
	smalldisk.Run(t, 4<<20, func(dir string) { onFullDisk(t, dir) })
}

func onFullDisk(t *testing.T, dir string) {
	opts := Options{Path: filepath.Join(dir, "db"), Identity: someone, FlushInterval: 1}
	db := open(t, opts)
	put(t, db, "before", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 1, Commit: []byte("1")}))
	require.NoError(t, db.Flush())

	remove := smalldisk.Fill(t, dir)

	for i := range 3 { // it goes on with rows in memory, and says each time what the disk says
		put(t, db, "during", string(make([]byte, 100<<10)))
		put(t, db, "before", "2")
		err := db.Commit(time.Unix(int64(2+i), 0), Meta{Next: int64(2 + i), Commit: []byte("2")})
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "flush state of "+someone.Task)
		require.Equal(t, "2", get(t, db, "before"))
		require.EqualValues(t, 2+i, db.Meta().Next, "the commit stands")
		require.Greater(t, db.DirtyBytes(), int64(100<<10))
	}
	require.NoError(t, db.Reader().View(func(v *View) error { // the file is as it was
		require.EqualValues(t, 1, v.Meta.Next)
		value, ok := v.Get(Bucket{Name: "s"}, []byte("before"))
		require.True(t, ok)
		require.Equal(t, "1", string(value))
		return nil
	}))
	require.Error(t, db.Close())

	remove()
	db = open(t, opts) // a restart finds the commit before, and takes the rest from the changelog
	require.EqualValues(t, 1, db.Meta().Next)
	require.Equal(t, "1", get(t, db, "before"))
	put(t, db, "during", string(make([]byte, 100<<10)))
	require.NoError(t, db.Commit(time.Unix(9, 0), Meta{Next: 9, Commit: []byte("9")}))
	require.NoError(t, errors.Join(db.Flush(), db.Close()))
}
