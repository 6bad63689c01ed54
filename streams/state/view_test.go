package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seen reads rows of the store s through a view.
func seen(t *testing.T, v *View) map[string]string {
	t.Helper()
	rows := map[string]string{}
	require.NoError(t, v.Buckets("s", 0, func(b Bucket) error {
		return v.Scan(b, nil, func(k, value []byte) error {
			rows[string(k)] = string(value)
			return nil
		})
	}))
	return rows
}

// TestReaderSeesCommittedRowsOfOneCommit: what is not committed is never seen, what is committed
// and not in the file not either, and the position is that of the rows.
func TestReaderSeesCommittedRowsOfOneCommit(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db"), Identity: someone})
	r := db.Reader()
	look := func() (rows map[string]string, meta Meta) {
		require.NoError(t, r.View(func(v *View) error {
			rows, meta = seen(t, v), v.Meta
			return nil
		}))
		return rows, meta
	}
	put(t, db, "a", "1")
	rows, meta := look()
	require.Empty(t, rows)
	require.Equal(t, Meta{}, meta)

	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 5, Commit: []byte("c")}))
	rows, meta = look()
	require.Empty(t, rows, "it is not in the file yet")
	require.Zero(t, meta.Next)

	put(t, db, "a", "2")
	require.NoError(t, db.Flush())
	rows, meta = look()
	require.Equal(t, map[string]string{"a": "1"}, rows, "the change of a is not committed")
	require.Equal(t, Meta{Next: 5, Commit: []byte("c")}, meta)
}

// TestCommittedRowsReachTheFileWithoutAnotherCommit: the input is quiet after one commit; its rows
// are in the file 5 s later.
func TestCommittedRowsReachTheFileWithoutAnotherCommit(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db"), Identity: someone})
	r := db.Reader()
	look := func() (rows map[string]string) {
		require.NoError(t, r.View(func(v *View) error {
			rows = seen(t, v)
			return nil
		}))
		return rows
	}
	due := func(second int64) time.Duration {
		next, err := db.FlushDue(time.Unix(second, 0))
		require.NoError(t, err)
		return next
	}
	require.Zero(t, due(0), "nothing is committed")
	put(t, db, "a", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 5, Commit: []byte("c")}))
	require.Equal(t, 2*time.Second, due(4))
	require.Empty(t, look())
	require.Zero(t, due(6))
	require.Equal(t, map[string]string{"a": "1"}, look())
	require.Zero(t, due(60), "all is written")
}

func TestViewFindsRowsAndWindows(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db"), Identity: someone})
	for start, key := range map[int64]string{-10: "x", 0: "y", 10: "z"} {
		require.NoError(t, db.Windows("w").Window(start).Put([]byte(key), []byte("1")))
	}
	put(t, db, "", "of the empty key")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 1, Commit: []byte("c")}))
	require.NoError(t, db.Flush())
	require.NoError(t, db.Reader().View(func(v *View) error {
		var starts []int64
		require.NoError(t, v.Buckets("w", -5, func(b Bucket) error {
			starts = append(starts, b.Start)
			return nil
		}))
		require.Equal(t, []int64{0, 10}, starts)
		value, ok := v.Get(Bucket{Name: "s"}, nil)
		require.True(t, ok)
		require.Equal(t, "of the empty key", string(value))
		_, ok = v.Get(Bucket{Name: "w", Windowed: true, Start: 0}, []byte("x"))
		require.False(t, ok)
		_, ok = v.Get(Bucket{Name: "none"}, []byte("x"))
		require.False(t, ok)
		return nil
	}))
}

// TestReaderOutlivesNothing: a task that lets go of its file is not held up by who looks at it, and
// who looks is told.
func TestReaderOutlivesNothing(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db"), Identity: someone})
	r := db.Reader()
	inside, leave, closed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		closed <- r.View(func(*View) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	done := make(chan error, 1)
	go func() { done <- db.Close() }()
	select {
	case <-done:
		t.Fatal("the file was closed under a view")
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	require.NoError(t, <-closed)
	require.NoError(t, <-done)
	require.ErrorIs(t, r.View(func(*View) error { return nil }), ErrClosed)
	_, err := r.Snapshot()
	require.ErrorIs(t, err, ErrClosed)
}

// TestSnapshotIsOneCommit goes on writing after the copy; the copy stays what it was and is removed
// when it is closed, or by the next owner of the file when its process died.
func TestSnapshotIsOneCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, Options{Path: path, Identity: someone})
	put(t, db, "a", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 5, Commit: []byte("c")}))
	require.NoError(t, db.Flush())
	s, err := db.Reader().Snapshot()
	require.NoError(t, err)
	put(t, db, "a", "2")
	require.NoError(t, db.Commit(time.Unix(2, 0), Meta{Next: 9, Commit: []byte("d")}))
	require.NoError(t, db.Flush())
	require.Equal(t, map[string]string{"a": "1"}, seen(t, s.View))
	require.EqualValues(t, 5, s.Meta.Next)
	copies, err := filepath.Glob(path + copySuffix + "*")
	require.NoError(t, err)
	require.Len(t, copies, 1)
	require.NoError(t, s.Close())
	require.NoFileExists(t, copies[0])

	require.NoError(t, os.WriteFile(path+copySuffix+"dead", nil, 0o600))
	require.NoError(t, db.Close())
	open(t, Options{Path: path, Identity: someone})
	require.NoFileExists(t, path+copySuffix+"dead")
}

// TestOpenClosedLooksAtWhatWasClosedInOrder: not at a file that may be torn, nor at one in use.
func TestOpenClosedLooksAtWhatWasClosedInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	_, _, err := OpenClosed(path)
	require.ErrorIs(t, err, ErrClosed)
	db := open(t, Options{Path: path, Identity: someone, BootID: "one"})
	put(t, db, "a", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 5, Commit: []byte("c")}))
	_, _, err = OpenClosed(path)
	require.Error(t, err)
	require.NoError(t, db.Close())

	r, end, err := OpenClosed(path)
	require.NoError(t, err)
	require.NoError(t, r.View(func(v *View) error {
		require.Equal(t, map[string]string{"a": "1"}, seen(t, v))
		return nil
	}))
	_, err = Open(Options{Path: path, Identity: someone, BootID: "one"})
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, end())
	db = open(t, Options{Path: path, Identity: someone, BootID: "one"})
	require.NoError(t, db.Kill())
	_, _, err = OpenClosed(path)
	require.ErrorIs(t, err, ErrClosed)
}

func TestStateInMemoryHasNoReader(t *testing.T) {
	require.Nil(t, open(t, Options{}).Reader())
}
