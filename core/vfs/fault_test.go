package vfs_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
)

func TestFaultHitsTheNthMatch(t *testing.T) {
	f := vfs.NewFault(vfs.NewMem())
	remove := f.Inject(vfs.Rule{Op: vfs.OpWrite, Path: ".log", Nth: 2, Times: 2, Err: syscall.EIO})
	log, err := f.OpenFile("/a.log", vfs.ReadWrite|vfs.Create, 0o644)
	require.NoError(t, err)
	other, err := f.OpenFile("/a.index", vfs.ReadWrite|vfs.Create, 0o644)
	require.NoError(t, err)
	for i, want := range []error{nil, syscall.EIO, syscall.EIO, nil} {
		_, err := other.WriteAt([]byte("x"), 0)
		require.NoError(t, err)
		n, err := log.WriteAt([]byte("x"), int64(i))
		require.ErrorIs(t, err, want, i)
		if want != nil {
			require.Zero(t, n)
			var pe *fs.PathError
			require.ErrorAs(t, err, &pe)
			require.Equal(t, "/a.log", pe.Path)
		}
	}
	require.Equal(t, 8, f.Count(vfs.OpWrite))
	remove()
	f.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.EIO, Partial: 2})
	n, err := log.WriteAt([]byte("abcd"), 10)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, 2, n)
	size, err := log.Size()
	require.NoError(t, err)
	require.Equal(t, int64(12), size)
}

func TestFaultOfEveryOperation(t *testing.T) {
	f := vfs.NewFault(vfs.NewMem())
	file, err := f.OpenFile("/f", vfs.ReadWrite|vfs.Create, 0o644)
	require.NoError(t, err)
	calls := map[vfs.Op]func() error{
		vfs.OpOpen: func() error { _, err := f.OpenFile("/f", vfs.ReadOnly, 0); return err },
		vfs.OpCreate: func() error {
			_, err := f.OpenFile("/g", vfs.ReadWrite|vfs.Create, 0)
			return err
		},
		vfs.OpRemove:   func() error { return f.Remove("/f") },
		vfs.OpRename:   func() error { return f.Rename("/f", "/g") },
		vfs.OpMkdir:    func() error { return f.MkdirAll("/d", 0o755) },
		vfs.OpReadDir:  func() error { _, err := f.ReadDir("/"); return err },
		vfs.OpStat:     func() error { _, err := f.Stat("/f"); return err },
		vfs.OpSyncDir:  func() error { return f.SyncDir("/") },
		vfs.OpLock:     func() error { _, err := f.Lock("/l"); return err },
		vfs.OpRead:     func() error { _, err := file.ReadAt(make([]byte, 1), 0); return err },
		vfs.OpWrite:    func() error { _, err := file.Write([]byte("x")); return err },
		vfs.OpSync:     func() error { return errors.Join(file.Sync()) },
		vfs.OpTruncate: func() error { return file.Truncate(0) },
		vfs.OpPreallocate: func() error {
			return file.(vfs.Preallocator).Preallocate(0, 1)
		},
		vfs.OpRemoveAll: func() error { return f.RemoveAll("/f") },
	}
	for op, call := range calls {
		remove := f.Inject(vfs.Rule{Op: op, Err: syscall.EIO})
		require.ErrorIs(t, call(), syscall.EIO, op)
		remove()
	}
	remove := f.Inject(vfs.Rule{Op: vfs.OpSync, Err: syscall.EIO})
	require.ErrorIs(t, file.Datasync(), syscall.EIO)
	remove()
	defer f.Inject(vfs.Rule{Op: vfs.OpClose, Err: syscall.EIO})()
	require.ErrorIs(t, file.Close(), syscall.EIO)
}

func TestFaultDiskFull(t *testing.T) {
	f := vfs.NewFault(vfs.NewMem())
	file, err := f.OpenFile("/f", vfs.ReadWrite|vfs.Create, 0o644)
	require.NoError(t, err)
	f.SetSpace(10)
	_, err = file.Write([]byte("123456"))
	require.NoError(t, err)
	free, err := f.Free("/")
	require.NoError(t, err)
	require.Equal(t, uint64(4), free)
	n, err := file.Write([]byte("abcdef")) // cut where the disk ends
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 4, n)
	n, err = file.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Zero(t, n)
	f.SetSpace(-1)
	_, err = file.Write([]byte("!"))
	require.NoError(t, err)
	require.Equal(t, "123456abcd!", read(t, f, "/f"))
}

func TestFaultDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := vfs.NewFault(vfs.NewMem())
		f.Inject(vfs.Rule{Op: vfs.OpSyncDir, Delay: time.Minute})
		start := time.Now()
		require.NoError(t, f.SyncDir("/"))
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestWriteFileAtomicLeavesNoTemporaryFileOnError(t *testing.T) {
	mem := vfs.NewMem()
	f := vfs.NewFault(mem)
	require.NoError(t, vfs.WriteFileAtomic(f, "/f", []byte("old"), 0o644))
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		remove := f.Inject(vfs.Rule{Op: op, Err: syscall.ENOSPC})
		require.ErrorIs(t, vfs.WriteFileAtomic(f, "/f", []byte("new"), 0o644), syscall.ENOSPC)
		require.Equal(t, []string{"f"}, names(t, mem, "/"))
		require.Equal(t, "old", read(t, mem, "/f"))
		remove()
	}
}

func TestTraceTellsWhatMatters(t *testing.T) {
	var got []string
	fsys := vfs.NewTrace(vfs.NewMem(), func(op string) { got = append(got, op) })
	require.NoError(t, fsys.MkdirAll("/d", 0o755))
	require.NoError(t, vfs.WriteFileAtomic(fsys, "/d/f", []byte("abc"), 0o644))
	f, err := fsys.OpenFile("/d/f", vfs.ReadWrite, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("x"), 7)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(2))
	require.NoError(t, f.Datasync())
	require.NoError(t, f.Close())
	_, err = fsys.Stat("/d/f")
	require.NoError(t, err)
	require.NoError(t, fsys.Remove("/d/f"))
	require.NoError(t, fsys.RemoveAll("/d"))
	require.Equal(t, []string{
		"mkdir /d", "create /d/f.tmp", "write /d/f.tmp +3", "sync /d/f.tmp", "close /d/f.tmp",
		"rename /d/f.tmp /d/f", "syncdir /d", "open /d/f", "write /d/f @7 +1", "truncate /d/f 2",
		"sync /d/f", "close /d/f", "remove /d/f", "removeall /d",
	}, got)
}

func TestLockTellsTheOwner(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "lock")
		lock, err := fsys.Lock(name)
		require.NoError(t, err)
		_, err = fsys.Lock(name)
		var locked *vfs.LockedError
		require.ErrorAs(t, err, &locked)
		require.ErrorIs(t, err, vfs.ErrLocked)
		require.Equal(t, os.Getpid(), locked.PID)
		require.Contains(t, err.Error(), name)
		require.NoError(t, lock.Close())
		lock, err = fsys.Lock(name)
		require.NoError(t, err)
		require.NoError(t, lock.Close())
	})
	require.NotContains(t, (&vfs.LockedError{Name: "x"}).Error(), "process 0")
}

// lockHelper is set in the process that TestLockOfAnotherProcess starts.
const lockHelper = "VFS_TEST_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockHelper); name != "" {
		if _, err := vfs.OS().Lock(name); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("locked\n")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestLockOfAnotherProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockHelper+"="+name)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked\n", line)
	_, err = vfs.OS().Lock(name)
	var locked *vfs.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, cmd.Process.Pid, locked.PID)

	require.NoError(t, cmd.Process.Kill()) // a lock ends with its process, however that ends
	require.Error(t, cmd.Wait())
	lock, err := vfs.OS().Lock(name)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestOSFilesHaveARawConnForSendfile(t *testing.T) {
	f, err := vfs.OS().OpenFile(filepath.Join(t.TempDir(), "f"), vfs.ReadWrite|vfs.Create, 0o644)
	require.NoError(t, err)
	defer f.Close()
	_, ok := f.(syscall.Conn)
	require.True(t, ok)
}
