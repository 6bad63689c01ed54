package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

var someone = Identity{Task: "app/counts/3", Fingerprint: "f1", Changelog: "topic-1"}

func open(t *testing.T, opts Options) *DB {
	t.Helper()
	db, err := Open(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Kill()) })
	return db
}

func put(t *testing.T, db *DB, key, value string) {
	t.Helper()
	require.NoError(t, db.Store("s").Put([]byte(key), []byte(value)))
}

func get(t *testing.T, db *DB, key string) string {
	t.Helper()
	v, ok, err := db.Store("s").Get([]byte(key))
	require.NoError(t, err)
	if !ok {
		return "none"
	}
	return string(v)
}

// TestFileNeverHoldsUncommitted reads the file itself: a row is in it only after Commit and Flush.
func TestFileNeverHoldsUncommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, Options{Path: path, Identity: someone})
	put(t, db, "a", "committed")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 2, Commit: []byte("c")}))
	put(t, db, "a", "pending")
	put(t, db, "b", "pending")
	require.NoError(t, db.Flush())
	require.NoError(t, db.Kill())

	raw, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, raw.Close()) }()
	require.NoError(t, raw.View(func(tx *bolt.Tx) error {
		sealed := tx.Bucket([]byte("k/s")).Get([]byte("ra"))
		require.Equal(t, "committed", string(sealed[:len(sealed)-sumSize]))
		require.Nil(t, tx.Bucket([]byte("k/s")).Get([]byte("rb")))
		return nil
	}))
}

func TestMismatchRefusesAndKeepsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, Options{Path: path, Identity: someone})
	put(t, db, "a", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 2, Commit: []byte("c")}))
	require.NoError(t, db.Close())
	for field, id := range map[string]Identity{
		"task":                 {Task: "other", Fingerprint: "f1", Changelog: "topic-1"},
		"topology fingerprint": {Task: someone.Task, Fingerprint: "f2", Changelog: "topic-1"},
		"changelog topic id":   {Task: someone.Task, Fingerprint: "f1", Changelog: "topic-2"},
	} {
		_, err := Open(Options{Path: path, Identity: id})
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, field+" is ")
		require.ErrorContains(t, err, "remove the file to restore")
	}
	db = open(t, Options{Path: path, Identity: someone})
	require.Equal(t, "1", get(t, db, "a"))
	require.Equal(t, Meta{Next: 2, Commit: []byte("c")}, db.Meta())
}

func TestSecondOpenNamesTheOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, Options{Path: path})
	_, err := Open(Options{Path: path})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", os.Getpid()))
	require.NoError(t, db.Close())
	open(t, Options{Path: path})
}

// TestPowerLoss: a file that was open when the machine stopped is put aside, one that was closed or
// whose process was killed is not.
func TestPowerLoss(t *testing.T) {
	cases := []struct {
		name       string
		close      bool
		boot       string
		wantMeta   int64
		wantOnDisk bool
	}{
		{"killed, same boot", false, "boot-1", 2, false},
		{"killed, other boot", false, "boot-2", 0, true},
		{"closed, other boot", true, "boot-2", 2, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			db := open(t, Options{Path: path, BootID: "boot-1", FlushInterval: 1})
			put(t, db, "a", "1")
			require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 2, Commit: []byte("c")}))
			require.NoError(t, db.Flush())
			if c.close {
				require.NoError(t, db.Close())
			}
			require.NoError(t, db.Kill())
			db = open(t, Options{Path: path, BootID: c.boot})
			require.Equal(t, c.wantMeta, db.Meta().Next)
			_, err := os.Stat(path + ".torn")
			require.Equal(t, c.wantOnDisk, err == nil)
		})
	}
}

func TestDamagedFileIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, Options{Path: path})
	require.NoError(t, db.Close())
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("not bbolt ", 1000)), 0o600))
	db = open(t, Options{Path: path})
	require.Zero(t, db.Meta())
	_, err := os.Stat(path + ".torn")
	require.NoError(t, err)
}

// TestEvictionKeepsAnswers: with a cache of one byte every read goes to the file.
func TestEvictionKeepsAnswers(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db"), CacheBytes: 1, FlushInterval: 1})
	for i := range 1000 {
		put(t, db, fmt.Sprint(i), fmt.Sprint(i*i))
	}
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 1}))
	require.NoError(t, db.Commit(time.Unix(9, 0), Meta{Next: 2}))
	require.Zero(t, db.Store("s").(*bucket).len())
	require.LessOrEqual(t, db.cacheBytes, int64(0))
	require.Equal(t, "998001", get(t, db, "999"))
	require.Equal(t, "none", get(t, db, "1000"))
}

func TestKeyTooLong(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db")})
	require.ErrorIs(t, db.Store("s").Put(make([]byte, MaxKey+1), nil), ErrKeyTooLong)
	require.NoError(t, db.Store("s").Put(make([]byte, MaxKey), nil))
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 1}))
	require.NoError(t, db.Flush())
}

func FuzzParseKey(f *testing.F) {
	f.Add([]byte("k\x03kvskey"))
	f.Add(bucketID{name: "w", windowed: true, start: -5}.appendPrefix(nil))
	f.Add([]byte{'w', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		id, key, err := parseKey(b)
		if err != nil {
			return
		}
		again, k, err := parseKey(append(id.appendPrefix(nil), key...))
		require.NoError(t, err)
		require.Equal(t, id, again)
		require.Equal(t, key, k)
	})
}

// BenchmarkFlush writes 100k committed rows of 16 B keys and 64 B values to an empty file.
func BenchmarkFlush(b *testing.B) {
	b.ReportAllocs()
	value := make([]byte, 64)
	rows := 0
	for b.Loop() {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "db")
		db, err := Open(Options{Path: path, FlushBytes: 1 << 40, FlushInterval: time.Hour})
		require.NoError(b, err)
		for i := range 100_000 {
			key := fmt.Appendf(nil, "%016x", uint64(i)*0x9E3779B97F4A7C15)
			require.NoError(b, db.Store("s").Put(key, value))
		}
		b.StartTimer()
		require.NoError(b, db.Commit(time.Unix(1, 0), Meta{Next: 1}))
		require.NoError(b, db.Flush())
		rows += 100_000
		b.StopTimer()
		require.NoError(b, db.Kill())
		b.StartTimer()
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkCount is the hot path of an aggregate: read, add, write of 10k keys.
func BenchmarkCount(b *testing.B) {
	b.ReportAllocs()
	db, err := Open(Options{Path: filepath.Join(b.TempDir(), "db")})
	require.NoError(b, err)
	s := db.Store("s")
	keys := make([][]byte, 10_000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%06d", i)
	}
	var value [8]byte
	i := 0
	for b.Loop() {
		k := keys[i%len(keys)]
		if i++; i%50_000 == 0 {
			require.NoError(b, db.Commit(time.Unix(int64(i), 0), Meta{Next: int64(i)}))
		}
		v, _, err := s.Get(k)
		if err != nil {
			b.Fatal(err)
		}
		copy(value[:], v)
		value[0]++
		if err := s.Put(k, value[:]); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, db.Close())
}

// TestFlushFailureKeepsRows: a file that cannot be written leaves the rows in memory, says so, and
// takes them when it can be written again.
func TestFlushFailureKeepsRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, Options{Path: path, Identity: someone, FlushInterval: 1})
	put(t, db, "a", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 1, Commit: []byte("one")}))
	good := db.file.db
	db.file.endRead()
	db.file.db = new(bolt.DB) // a closed one: every transaction fails
	put(t, db, "b", "2")
	err := db.Commit(time.Unix(2, 0), Meta{Next: 2, Commit: []byte("two")})
	require.ErrorContains(t, err, "flush state of app/counts/3")
	require.Equal(t, Meta{Next: 2, Commit: []byte("two")}, db.Meta(), "the commit stands")
	require.Positive(t, db.DirtyBytes())
	require.Equal(t, "2", get(t, db, "b"))

	db.file.db = good
	require.NoError(t, db.Flush())
	require.Zero(t, db.DirtyBytes())
	require.NoError(t, db.Kill())
	db = open(t, Options{Path: path, Identity: someone})
	require.Equal(t, Meta{Next: 2, Commit: []byte("two")}, db.Meta())
	require.Equal(t, "1", get(t, db, "a"))
	require.Equal(t, "2", get(t, db, "b"))
}

// TestRowsOfADroppedWindowLeaveMemoryWithTheCommit: they do not wait for the file, neither when it
// has the window nor when it has not, and a row that comes after the drop is the only one there.
func TestRowsOfADroppedWindowLeaveMemoryWithTheCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, Options{Path: path, Identity: someone})
	w := db.Windows("w")
	for _, start := range []int64{10, 20} {
		for i := range 100 {
			require.NoError(t, w.Window(start).Put(fmt.Appendf(nil, "k%d", i), []byte("value")))
		}
		require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: start, Commit: []byte("c")}))
		if start == 10 {
			require.NoError(t, db.Flush())
		}
	}
	require.NoError(t, w.Drop(10))
	require.NoError(t, w.Drop(20))
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 30, Commit: []byte("c")}))
	require.Zero(t, db.DirtyBytes())
	require.Empty(t, db.dirty)
	require.Zero(t, db.cacheBytes)
	require.NoError(t, w.Window(10).Put([]byte("k1"), []byte("new")))
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 40, Commit: []byte("c")}))
	require.NoError(t, db.Close())

	db = open(t, Options{Path: path, Identity: someone})
	var rows []string
	require.NoError(t, db.Each(func(key, value []byte) error {
		rows = append(rows, string(key[len(key)-2:])+"="+string(value))
		return nil
	}))
	require.Equal(t, []string{"k1=new"}, rows)
}

// TestEachValueIsCheckedOnce: a row that was checked is checked again when it has another value,
// through commits, aborts and a file that is read again.
func TestEachValueIsCheckedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	open := func() *DB {
		db, err := Open(Options{Path: path, CacheBytes: 1})
		require.NoError(t, err)
		return db
	}
	db, asked := open(), 0
	get := func(want string) {
		t.Helper()
		got, ok, err := db.Store("t").(Checker).GetChecked([]byte("k"), func(_, value []byte) error {
			asked++
			require.Equal(t, want, string(value))
			return nil
		})
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, string(got))
	}
	put := func(value string) { require.NoError(t, db.Store("t").Put([]byte("k"), []byte(value))) }
	put("a")
	get("a")
	require.NoError(t, db.Commit(time.Now(), Meta{Next: 1}))
	get("a")
	require.Equal(t, 1, asked, "the commit changed nothing")
	put("b")
	get("b")
	get("b")
	require.Equal(t, 2, asked)
	db.Abort()
	get("a")
	require.Equal(t, 3, asked, "what an abort brings back is another value")
	require.NoError(t, db.Close())
	db = open()
	get("a")
	get("a")
	require.Equal(t, 4, asked)
	failing := errors.New("bad row")
	put("c")
	for range 2 {
		_, _, err := db.Store("t").(Checker).GetChecked([]byte("k"),
			func(_, _ []byte) error { return failing })
		require.ErrorIs(t, err, failing)
	}
	require.NoError(t, db.Close())
}
