package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// each runs a test on every file system, in an empty directory of it.
func each(t *testing.T, test func(t *testing.T, fsys vfs.FS, dir string)) {
	systems := map[string]func(t *testing.T) (vfs.FS, string){
		"os": func(t *testing.T) (vfs.FS, string) { return vfs.OS(), t.TempDir() },
		"mem": func(t *testing.T) (vfs.FS, string) {
			mem := vfs.NewMem()
			require.NoError(t, mem.MkdirAll("/tmp/x", 0o755))
			return mem, "/tmp/x"
		},
		"fault": func(t *testing.T) (vfs.FS, string) {
			return vfs.NewFault(vfs.OS()), t.TempDir()
		},
		"pool": func(t *testing.T) (vfs.FS, string) {
			return vfs.NewPool(vfs.OS(), 1), t.TempDir()
		},
		"trace": func(t *testing.T) (vfs.FS, string) {
			mem := vfs.NewMem()
			require.NoError(t, mem.MkdirAll("/d", 0o755))
			return vfs.NewTrace(mem, func(string) {}), "/d"
		},
	}
	for name, open := range systems {
		t.Run(name, func(t *testing.T) {
			fsys, dir := open(t)
			test(t, fsys, dir)
		})
	}
}

func write(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.OpenFile(name, vfs.WriteOnly|vfs.Create|vfs.Truncate, 0o644)
	require.NoError(t, err)
	_, err = f.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func read(t testing.TB, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(b)
}

func TestFileReadsAndWrites(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		f, err := fsys.OpenFile(name, vfs.ReadWrite|vfs.Create, 0o644)
		require.NoError(t, err)
		require.Equal(t, name, f.Name())
		n, err := f.Write([]byte("hello "))
		require.NoError(t, err)
		require.Equal(t, 6, n)
		_, err = f.Write([]byte("world"))
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("J"), 0)
		require.NoError(t, err)
		size, err := f.Size()
		require.NoError(t, err)
		require.Equal(t, int64(11), size)

		buf := make([]byte, 5)
		n, err = f.ReadAt(buf, 6)
		require.NoError(t, err)
		require.Equal(t, "world", string(buf[:n]))
		n, err = f.ReadAt(buf, 9)
		require.Equal(t, io.EOF, err)
		require.Equal(t, "ld", string(buf[:n]))
		_, err = f.ReadAt(buf, 11)
		require.Equal(t, io.EOF, err)
		_, err = f.ReadAt(buf, -1)
		require.Error(t, err)
		_, err = f.WriteAt(buf, -1)
		require.Error(t, err)

		_, err = f.WriteAt([]byte("!"), 13) // a hole is zeros
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Datasync())
		require.NoError(t, f.Close())
		require.Equal(t, "Jello world\x00\x00!", read(t, fsys, name))

		require.ErrorIs(t, f.Close(), fs.ErrClosed)
		_, err = f.Write([]byte("x"))
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = f.ReadAt(buf, 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorIs(t, f.Sync(), fs.ErrClosed)
		require.ErrorIs(t, f.Datasync(), fs.ErrClosed)
		require.ErrorIs(t, f.Truncate(0), fs.ErrClosed)
		_, err = f.Size()
		require.ErrorIs(t, err, fs.ErrClosed)
	})
}

func TestFileTruncates(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		write(t, fsys, name, "0123456789")
		f, err := fsys.OpenFile(name, vfs.ReadWrite, 0)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, f.Truncate(4))
		require.Equal(t, "0123", read(t, fsys, name))
		require.NoError(t, f.Truncate(6))
		require.Equal(t, "0123\x00\x00", read(t, fsys, name))
		require.Error(t, f.Truncate(-1))
	})
}

func TestOpenFollowsItsFlags(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		_, err := fsys.OpenFile(name, vfs.ReadOnly, 0)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = fsys.OpenFile(filepath.Join(dir, "no", "f"), vfs.WriteOnly|vfs.Create, 0o644)
		require.ErrorIs(t, err, fs.ErrNotExist)
		write(t, fsys, name, "abc")
		_, err = fsys.OpenFile(name, vfs.WriteOnly|vfs.Create|vfs.Exclusive, 0o644)
		require.ErrorIs(t, err, fs.ErrExist)
		_, err = fsys.OpenFile(filepath.Join(name, "below"), vfs.ReadOnly, 0)
		require.ErrorIs(t, err, syscall.ENOTDIR)

		f, err := fsys.OpenFile(name, vfs.WriteOnly|vfs.Append, 0)
		require.NoError(t, err)
		_, err = f.Write([]byte("de"))
		require.NoError(t, err)
		_, err = f.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.EBADF)
		require.NoError(t, f.Close())
		require.Equal(t, "abcde", read(t, fsys, name))

		f, err = fsys.OpenFile(name, vfs.ReadOnly, 0)
		require.NoError(t, err)
		_, err = f.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EBADF)
		got, err := io.ReadAll(f)
		require.NoError(t, err)
		require.Equal(t, "abcde", string(got))
		require.NoError(t, f.Close())
	})
}

func names(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestDirectoriesListTheirEntries(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		sub := filepath.Join(dir, "a", "b")
		require.NoError(t, fsys.MkdirAll(sub, 0o755))
		require.NoError(t, fsys.MkdirAll(sub, 0o755))
		write(t, fsys, filepath.Join(sub, "z"), "1")
		write(t, fsys, filepath.Join(sub, "y"), "22")
		require.Equal(t, []string{"y", "z"}, names(t, fsys, sub))
		info, err := fsys.Stat(filepath.Join(sub, "y"))
		require.NoError(t, err)
		require.Equal(t, "y", info.Name())
		require.Equal(t, int64(2), info.Size())
		require.False(t, info.IsDir())
		require.False(t, info.ModTime().IsZero())
		info, err = fsys.Stat(sub)
		require.NoError(t, err)
		require.True(t, info.IsDir())
		require.NoError(t, fsys.SyncDir(sub))

		require.ErrorIs(t, fsys.Remove(sub), syscall.ENOTEMPTY)
		require.NoError(t, fsys.Remove(filepath.Join(sub, "y")))
		require.ErrorIs(t, fsys.Remove(filepath.Join(sub, "y")), fs.ErrNotExist)
		require.NoError(t, fsys.RemoveAll(filepath.Join(dir, "a")))
		require.NoError(t, fsys.RemoveAll(filepath.Join(dir, "a")))
		require.NoError(t, fsys.RemoveAll(filepath.Join(dir, "not", "there")))
		require.Empty(t, names(t, fsys, dir))
		_, err = fsys.Stat(sub)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = fsys.ReadDir(sub)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorIs(t, fsys.SyncDir(sub), fs.ErrNotExist)

		write(t, fsys, filepath.Join(dir, "file"), "")
		require.ErrorIs(t, fsys.MkdirAll(filepath.Join(dir, "file", "x"), 0o755), syscall.ENOTDIR)
		free, err := fsys.Free(dir)
		require.NoError(t, err)
		require.NotZero(t, free)
	})
}

func TestRenameReplacesAtomically(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		write(t, fsys, a, "new")
		write(t, fsys, b, "old")
		open, err := fsys.OpenFile(b, vfs.ReadOnly, 0)
		require.NoError(t, err)
		defer open.Close()
		require.NoError(t, fsys.Rename(a, b))
		require.Equal(t, "new", read(t, fsys, b))
		require.Equal(t, []string{"b"}, names(t, fsys, dir))
		old, err := io.ReadAll(open) // an open file outlives its name
		require.NoError(t, err)
		require.Equal(t, "old", string(old))

		require.ErrorIs(t, fsys.Rename(a, b), fs.ErrNotExist)
		sub := filepath.Join(dir, "sub")
		require.NoError(t, fsys.MkdirAll(sub, 0o755))
		require.NoError(t, fsys.Rename(b, filepath.Join(sub, "c")))
		require.NoError(t, fsys.Rename(sub, filepath.Join(dir, "moved")))
		require.Equal(t, "new", read(t, fsys, filepath.Join(dir, "moved", "c")))
		require.NoError(t, fsys.MkdirAll(filepath.Join(dir, "empty"), 0o755))
		err = fsys.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "empty"))
		require.ErrorIs(t, err, fs.ErrExist)
	})
}

func TestWriteFileAtomic(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte("one"), 0o644))
		require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte("2"), 0o644))
		require.Equal(t, "2", read(t, fsys, name))
		require.Equal(t, []string{"f"}, names(t, fsys, dir))
		_, err := vfs.ReadFile(fsys, name+"x")
		require.ErrorIs(t, err, fs.ErrNotExist)
		err = vfs.WriteFileAtomic(fsys, filepath.Join(dir, "no", "f"), nil, 0o644)
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestPreallocateKeepsTheSize(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		f, err := fsys.OpenFile(filepath.Join(dir, "f"), vfs.ReadWrite|vfs.Create, 0o644)
		require.NoError(t, err)
		defer f.Close()
		_, err = f.Write([]byte("abc"))
		require.NoError(t, err)
		p, ok := f.(vfs.Preallocator)
		require.True(t, ok)
		if err := p.Preallocate(0, 1<<20); !errors.Is(err, errors.ErrUnsupported) {
			require.NoError(t, err)
		}
		size, err := f.Size()
		require.NoError(t, err)
		require.Equal(t, int64(3), size)
	})
}

// Mem must do what the disk does, whatever the order of operations.
func TestMemFileBehavesAsAnOSFile(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		osFile, err := vfs.OS().OpenFile(filepath.Join(dir, "f"),
			vfs.ReadWrite|vfs.Create|vfs.Truncate, 0o644)
		require.NoError(t, err)
		defer osFile.Close()
		memFile, err := vfs.NewMem().OpenFile("f", vfs.ReadWrite|vfs.Create, 0o644)
		require.NoError(t, err)
		both := []vfs.File{osFile, memFile}
		data := rapid.SliceOfN(rapid.Byte(), 0, 20)
		offset := rapid.Int64Range(0, 60)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				p := data.Draw(t, "data")
				for _, f := range both {
					_, err := f.Write(p)
					require.NoError(t, err)
				}
			},
			"writeAt": func(t *rapid.T) {
				p, off := data.Draw(t, "data"), offset.Draw(t, "offset")
				for _, f := range both {
					_, err := f.WriteAt(p, off)
					require.NoError(t, err)
				}
			},
			"truncate": func(t *rapid.T) {
				size := offset.Draw(t, "size")
				for _, f := range both {
					require.NoError(t, f.Truncate(size))
				}
			},
			"read": func(t *rapid.T) {
				n := rapid.IntRange(1, 30).Draw(t, "n")
				var got [2][]byte
				var errs [2]error
				for i, f := range both {
					got[i] = make([]byte, n)
					var k int
					k, errs[i] = f.Read(got[i])
					got[i] = got[i][:k]
				}
				require.Equal(t, got[0], got[1])
				require.Equal(t, errs[0], errs[1])
			},
			"": func(t *rapid.T) {
				var whole [2][]byte
				for i, f := range both {
					size, err := f.Size()
					require.NoError(t, err)
					whole[i] = make([]byte, size)
					_, err = f.ReadAt(whole[i], 0)
					require.True(t, err == nil || err == io.EOF)
				}
				require.True(t, bytes.Equal(whole[0], whole[1]))
			},
		})
	})
}
