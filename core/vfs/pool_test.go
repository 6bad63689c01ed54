package vfs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// poolOf returns a pool on a fresh disk whose openings can be made to fail.
func poolOf(t *testing.T, limit int) (*vfs.Pool, *vfs.Fault) {
	t.Helper()
	fault := vfs.NewFault(vfs.NewMem())
	require.NoError(t, fault.MkdirAll("/d", 0o755))
	return vfs.NewPool(fault, limit), fault
}

func openIn(t *testing.T, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, vfs.ReadWrite|vfs.Create, 0o644)
	require.NoError(t, err)
	return f
}

func putSynced(t *testing.T, f vfs.File, s string) {
	t.Helper()
	_, err := f.WriteAt([]byte(s), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
}

func requireContent(t *testing.T, f vfs.File, want string) {
	t.Helper()
	size, err := f.Size()
	require.NoError(t, err)
	got := make([]byte, size)
	_, err = f.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func TestPoolKeepsTheLimit(t *testing.T) {
	pool, _ := poolOf(t, 4)
	var files []vfs.File
	for i := range 20 {
		files = append(files, openIn(t, pool, fmt.Sprintf("/d/%02d", i)))
		putSynced(t, files[i], fmt.Sprint("content ", i))
		require.LessOrEqual(t, pool.Open(), 4)
	}
	for range 3 {
		for i, f := range files {
			requireContent(t, f, fmt.Sprint("content ", i))
			require.LessOrEqual(t, pool.Open(), 4)
		}
	}
	for i, f := range files {
		require.NoError(t, f.Close())
		require.ErrorIs(t, f.Close(), fs.ErrClosed)
		_, err := f.ReadAt(make([]byte, 1), 0)
		require.ErrorIs(t, err, fs.ErrClosed, i)
	}
	require.Zero(t, pool.Open())
}

// A failed write-back is told to descriptors that were open then: none may be closed before a sync.
func TestPoolNeverClosesWhatIsNotSynced(t *testing.T) {
	pool, _ := poolOf(t, 2)
	var files []vfs.File
	for i := range 6 {
		files = append(files, openIn(t, pool, fmt.Sprint("/d/", i)))
		_, err := files[i].WriteAt([]byte("x"), 0)
		require.NoError(t, err)
	}
	require.Equal(t, 6, pool.Open())
	for _, f := range files[1:] {
		require.NoError(t, f.Datasync())
	}
	for range 3 {
		openIn(t, pool, "/d/more")
	}
	require.Equal(t, 2, pool.Open(), "one written to, one that was opened")
	require.NoError(t, files[0].Truncate(0))
	require.NoError(t, pool.SyncTree("/d"))
	for range 3 {
		openIn(t, pool, "/d/more")
	}
	requireContent(t, files[5], "x")
	require.LessOrEqual(t, pool.Open(), 2)
}

// A failed sync says nothing about the bytes, so that the file stays as unsafe as it was.
func TestPoolKeepsAFileWhoseSyncFailed(t *testing.T) {
	pool, fault := poolOf(t, 1)
	f := openIn(t, pool, "/d/f")
	_, err := f.WriteAt([]byte("x"), 0)
	require.NoError(t, err)
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Err: syscall.EIO, Times: 1})
	require.ErrorIs(t, f.Datasync(), syscall.EIO)
	fault.Inject(vfs.Rule{Op: vfs.OpSyncTree, Err: syscall.EIO, Times: 1})
	require.ErrorIs(t, pool.SyncTree("/d"), syscall.EIO)
	for range 3 {
		openIn(t, pool, "/d/more")
	}
	opened := fault.Count(vfs.OpOpen)
	requireContent(t, f, "x")
	require.Equal(t, opened, fault.Count(vfs.OpOpen))
}

func TestPoolFollowsRenamesAndKeepsRemovedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, pool *vfs.Pool)
	}{
		{"renamed", func(t *testing.T, pool *vfs.Pool) {
			require.NoError(t, pool.Rename("/d/p/f", "/d/p/f.deleted"))
		}},
		{"directory renamed", func(t *testing.T, pool *vfs.Pool) {
			require.NoError(t, pool.Rename("/d/p", "/d/p-delete"))
		}},
		{"both", func(t *testing.T, pool *vfs.Pool) {
			require.NoError(t, pool.Rename("/d/p", "/d/q"))
			require.NoError(t, pool.Rename("/d/q/f", "/d/q/g"))
			require.NoError(t, pool.Rename("/d/q", "/d/r"))
		}},
		{"removed", func(t *testing.T, pool *vfs.Pool) {
			require.NoError(t, pool.Remove("/d/p/f"))
		}},
		{"directory removed", func(t *testing.T, pool *vfs.Pool) {
			require.NoError(t, pool.RemoveAll("/d/p"))
		}},
		{"replaced", func(t *testing.T, pool *vfs.Pool) {
			require.NoError(t, vfs.WriteFileAtomic(pool, "/d/p/f", []byte("new"), 0o644))
		}},
		{"renamed, then removed", func(t *testing.T, pool *vfs.Pool) {
			require.NoError(t, pool.Rename("/d/p/f", "/d/p/g"))
			require.NoError(t, pool.RemoveAll("/d/p/g"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := vfs.OS()
			dir := t.TempDir()
			pool := vfs.NewPool(moved{disk, dir}, 1)
			require.NoError(t, pool.MkdirAll("/d/p", 0o755))
			f := openIn(t, pool, "/d/p/f")
			putSynced(t, f, "content")
			others := []vfs.File{openIn(t, pool, "/d/1"), openIn(t, pool, "/d/2")}
			c.change(t, pool)
			for range 3 {
				requireContent(t, f, "content")
				for _, o := range others {
					requireContent(t, o, "")
				}
			}
			putSynced(t, f, "CONTENT")
			requireContent(t, f, "CONTENT")
			require.NoError(t, f.Close())
		})
	}
}

// moved is a file system whose root is a directory of another.
type moved struct {
	vfs.FS
	root string
}

func (m moved) at(name string) string { return filepath.Join(m.root, name) }

func (m moved) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return m.FS.OpenFile(m.at(name), flag, perm)
}
func (m moved) Remove(name string) error    { return m.FS.Remove(m.at(name)) }
func (m moved) RemoveAll(name string) error { return m.FS.RemoveAll(m.at(name)) }
func (m moved) Rename(from, to string) error {
	return m.FS.Rename(m.at(from), m.at(to))
}
func (m moved) MkdirAll(name string, perm fs.FileMode) error {
	return m.FS.MkdirAll(m.at(name), perm)
}
func (m moved) SyncDir(name string) error { return m.FS.SyncDir(m.at(name)) }

// With no descriptor left, an idle file gives its own up, and what fails works again later.
func TestPoolGivesADescriptorUpForAnotherFile(t *testing.T) {
	pool, fault := poolOf(t, 100)
	idle := openIn(t, pool, "/d/idle")
	putSynced(t, idle, "x")
	fault.Inject(vfs.Rule{Op: vfs.OpCreate, Err: syscall.EMFILE, Times: 1})
	f := openIn(t, pool, "/d/f") // idle's is free now
	require.Equal(t, 1, pool.Open())
	_, err := f.WriteAt([]byte("y"), 0)
	require.NoError(t, err)
	remove := fault.Inject(vfs.Rule{Op: vfs.OpOpen, Err: syscall.EMFILE})
	_, err = idle.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, syscall.EMFILE)
	require.True(t, vfs.FileLimit(err))
	remove()
	requireContent(t, idle, "x")
	requireContent(t, f, "y")
}

// TestPoolUnderConcurrency has many goroutines use few descriptors of real files, with sendfile's
// way to the descriptor among them.
func TestPoolUnderConcurrency(t *testing.T) {
	dir := t.TempDir()
	pool := vfs.NewPool(vfs.OS(), 3)
	var files []vfs.File
	for i := range 12 {
		files = append(files, openIn(t, pool, filepath.Join(dir, fmt.Sprint(i))))
		putSynced(t, files[i], fmt.Sprintf("file %02d", i))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				n := (i*7 + g*5) % len(files)
				f, want := files[n], fmt.Sprintf("file %02d", n)
				got := make([]byte, len(want))
				switch i % 3 {
				case 0:
					_, err := f.ReadAt(got, 0)
					requireSame(t, err, want, got)
				case 1:
					conn, err := f.(interface {
						SyscallConn() (syscall.RawConn, error)
					}).SyscallConn()
					requireSame(t, err, "", nil)
					err = conn.Control(func(fd uintptr) { _, err = syscall.Pread(int(fd), got, 0) })
					requireSame(t, err, want, got)
				default:
					_, err := f.WriteAt([]byte(want), 0)
					requireSame(t, err, "", nil)
					requireSame(t, f.Datasync(), "", nil)
				}
			}
		})
	}
	wg.Wait()
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	require.Zero(t, pool.Open())
	left, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range left {
		name, _ := os.Readlink("/proc/self/fd/" + e.Name())
		require.NotEqual(t, dir, filepath.Dir(name), "a descriptor is left")
	}
}

func requireSame(t *testing.T, err error, want string, got []byte) {
	if err != nil || string(got) != want {
		t.Errorf("%v, %q, want %q", err, got, want)
	}
}
