package state

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fullDisk tells the child process of the test where to mount its small disk.
const fullDisk = "MILLSTREAM_TEST_FULL_DISK"

// TestDiskFullKeepsWhatIsCommitted runs in a process that mounts a file system of 4 MiB, and fills
// it: the kernel refuses writes of bbolt with ENOSPC.
func TestDiskFullKeepsWhatIsCommitted(t *testing.T) {
	if dir := os.Getenv(fullDisk); dir != "" {
		require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"))
		onFullDisk(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDiskFullKeepsWhatIsCommitted$", "-test.v")
	cmd.Env = append(os.Environ(), fullDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if id := os.Getuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: id, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func onFullDisk(t *testing.T, dir string) {
	opts := Options{Path: filepath.Join(dir, "db"), Identity: someone, FlushInterval: 1}
	db := open(t, opts)
	put(t, db, "before", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 1, Commit: []byte("1")}))
	require.NoError(t, db.Flush())

	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())

	for i := range 3 { // it goes on with rows in memory, and says each time what the disk says
		put(t, db, "during", string(make([]byte, 100<<10)))
		put(t, db, "before", "2")
		err = db.Commit(time.Unix(int64(2+i), 0), Meta{Next: int64(2 + i), Commit: []byte("2")})
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

	require.NoError(t, os.Remove(ballast))
	db = open(t, opts) // a restart finds the commit before, and takes the rest from the changelog
	require.EqualValues(t, 1, db.Meta().Next)
	require.Equal(t, "1", get(t, db, "before"))
	put(t, db, "during", string(make([]byte, 100<<10)))
	require.NoError(t, db.Commit(time.Unix(9, 0), Meta{Next: 9, Commit: []byte("9")}))
	require.NoError(t, errors.Join(db.Flush(), db.Close()))
}
