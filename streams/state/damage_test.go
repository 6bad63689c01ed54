package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

const pageSize = 4096

// written makes a file with stores and windows of several levels, and returns it with its rows.
func written(t *testing.T, path string, clean bool) (file []byte, rows map[string]string) {
	t.Helper()
	db := open(t, Options{Path: path, Identity: someone, BootID: "b"})
	for i := range 3000 {
		key := binary.BigEndian.AppendUint32(nil, uint32(i*7919))
		require.NoError(t, db.Store("kept").Put(key, fmt.Appendf(nil, "value %d of a row", i)))
		require.NoError(t, db.Windows("w").Window(int64(i%5)).Put(key, fmt.Append(nil, i)))
	}
	require.NoError(t, db.Store("few").Put([]byte("a"), []byte("1")))
	require.NoError(t, db.Store("large").Put([]byte("b"), make([]byte, 20_000)))
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 7000, Commit: []byte("commit")}))
	require.NoError(t, db.Flush())
	rows = contents(t, db)
	require.Len(t, rows, 6002)
	if clean {
		require.NoError(t, db.Close())
	} else {
		require.NoError(t, db.Kill())
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	return file, rows
}

func contents(t *testing.T, db *DB) map[string]string {
	t.Helper()
	rows, err := everything(db)
	require.NoError(t, err)
	return rows
}

func everything(db *DB) (map[string]string, error) {
	rows := map[string]string{}
	err := db.Each(func(k, v []byte) error {
		rows[string(k)] = string(v)
		return nil
	})
	return rows, err
}

// harmed is a file that was changed, and how.
type harmed struct {
	what string
	file []byte
}

func harm(file []byte, flips int) (all []harmed) {
	for at := 0; at < len(file); at += len(file) / 20 {
		all = append(all, harmed{fmt.Sprint("cut at ", at), file[:at]})
	}
	for at := 0; at < len(file); at += pageSize {
		zeroed := append([]byte(nil), file...)
		clear(zeroed[at : at+pageSize])
		all = append(all, harmed{fmt.Sprint("zeroed page ", at/pageSize), zeroed})
		half := append([]byte(nil), file...)
		clear(half[at+pageSize/2 : at+pageSize])
		all = append(all, harmed{fmt.Sprint("half a page ", at/pageSize), half})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range flips {
		flipped := append([]byte(nil), file...)
		at, bit := random.IntN(len(file)), random.IntN(8)
		flipped[at] ^= 1 << bit
		all = append(all, harmed{fmt.Sprintf("bit %d of byte %d", bit, at), flipped})
	}
	return all
}

// TestDamageIsNoticedOrHarmless harms a state file in any way: the rows are those that were
// written, or it says that it is damaged; then it is put aside and an empty one takes its place.
// Where a page that leads to others still leads somewhere, rows may be missing unnoticed: bbolt has
// no checksum there. A row that is read is always as it was written.
func TestDamageIsNoticedOrHarmless(t *testing.T) {
	for clean, flips := range map[bool]int{true: 20, false: 150} {
		path := filepath.Join(t.TempDir(), "db")
		file, rows := written(t, path, clean)
		noticed, aside, missing := 0, 0, 0
		for _, h := range harm(file, flips) {
			require.NoError(t, os.RemoveAll(path+asideSuffix))
			require.NoError(t, os.WriteFile(path, h.file, 0o600))
			db, err := Open(Options{Path: path, Identity: someone, BootID: "b"})
			require.NoError(t, err, h.what)
			if db.Meta().Next == 0 {
				require.Empty(t, contents(t, db), h.what)
				aside++
				require.NoError(t, db.Close())
				continue
			}
			require.Equal(t, Meta{7000, []byte("commit")}, db.Meta(), h.what)
			got, err := everything(db)
			if err == nil {
				require.Empty(t, other(rows, got), h.what)
				if len(got) < len(rows) {
					missing++
				}
			} else {
				noticed++
				require.ErrorIs(t, err, ErrDamaged, h.what)
				require.ErrorContains(t, err, path)
				requireAside(t, db, path)
			}
			require.NoError(t, db.Close())
		}
		require.Greater(t, noticed, 50)
		require.Greater(t, aside, 10)
		require.Less(t, missing, 20)
	}
}

// other tells which rows are not as they were written.
func other(want, got map[string]string) (keys []string) {
	for k, v := range got {
		if w, ok := want[k]; !ok || w != v {
			keys = append(keys, fmt.Sprintf("%x", k))
		}
	}
	return keys
}

// requireAside: what is damaged takes no commit, and its end puts it aside.
func requireAside(t *testing.T, db *DB, path string) {
	t.Helper()
	nothing := func(_, _ []byte) error { return nil }
	require.ErrorIs(t, db.Changes(nothing), ErrDamaged)
	require.ErrorIs(t, db.Flush(), ErrDamaged)
	require.ErrorIs(t, db.Reader().View(func(*View) error { return nil }), ErrDamaged)
	require.NoError(t, db.Close())
	require.NoFileExists(t, path)
	require.FileExists(t, path+asideSuffix)
}

// TestOlderFormatIsRestored: a file of a build without checksums is put aside, nothing is refused.
func TestOlderFormatIsRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, Options{Path: path, Identity: someone})
	put(t, db, "a", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 2, Commit: []byte("c")}))
	require.NoError(t, db.Flush())
	require.NoError(t, db.file.update(func(tx *bolt.Tx) error {
		return errors.Join(tx.Bucket(metaBucket).Delete(keySum),
			tx.Bucket(metaBucket).Put(keyFormat, []byte("1")))
	}))
	require.NoError(t, db.Close())
	db = open(t, Options{Path: path, Identity: someone})
	require.Zero(t, db.Meta())
	require.FileExists(t, path+asideSuffix)
}
