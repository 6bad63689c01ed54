package state

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

// TestBudgetIsSharedByStates: what all states together have not written counts; only one that takes
// more than its share is pressed, and its next commit writes the file early.
func TestBudgetIsSharedByStates(t *testing.T) {
	budget := NewBudget(8 << 20) // 4 MiB of changed rows, 2 MiB for each of two
	dir := t.TempDir()
	var dbs []*DB
	for i := range 2 {
		id := someone
		id.Task = fmt.Sprint("task ", i)
		dbs = append(dbs, open(t, Options{Path: filepath.Join(dir, id.Task), Identity: id,
			Budget: budget}))
	}
	fill := func(db *DB, from, mib int) {
		for i := range mib {
			put(t, db, fmt.Sprint(from+i), string(make([]byte, 1<<20)))
		}
	}
	fill(dbs[0], 0, 3)
	require.False(t, dbs[0].Pressed(), "there is room")
	fill(dbs[1], 0, 1)
	require.False(t, dbs[1].Pressed())
	fill(dbs[0], 3, 1)
	require.True(t, dbs[0].Pressed())
	require.False(t, dbs[1].Pressed(), "it has less than its share")
	require.InDelta(t, 5<<20, budget.Dirty(), 1<<16)

	require.NoError(t, dbs[0].Commit(time.Unix(1, 0), Meta{Next: 1, Commit: []byte("c")}))
	require.Zero(t, dbs[0].DirtyBytes(), "it was written at once")
	require.False(t, dbs[0].Pressed())
	require.InDelta(t, 1<<20, budget.Dirty(), 1<<16)
	require.NoError(t, dbs[1].Close())
	require.InDelta(t, 0, budget.Dirty(), 1<<16)
	fill(dbs[0], 0, 3)
	require.False(t, dbs[0].Pressed(), "it has the share of both now")
	dbs[0].Abort()
	require.False(t, dbs[0].Pressed())
	require.InDelta(t, 0, budget.Dirty(), 1<<16)
}

// TestBudgetBoundsWhatIsKeptForReading: clean rows beyond the share go.
func TestBudgetBoundsWhatIsKeptForReading(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db"), Identity: someone,
		Budget: NewBudget(4 << 20)})
	for i := range 8 {
		put(t, db, fmt.Sprint(i), string(make([]byte, 1<<20)))
		require.NoError(t, db.Commit(time.Unix(int64(i), 0), Meta{Next: int64(i)}))
		require.NoError(t, db.Flush())
	}
	require.LessOrEqual(t, db.cacheBytes, int64(2<<20))
	require.Len(t, get(t, db, "0"), 1<<20, "it is in the file")
}

// TestMemoryTellsWhatAStateTakes: changed rows are dirty until they are in the file; then they are
// kept for reading as far as the budget goes, and the others are counted as evicted.
func TestMemoryTellsWhatAStateTakes(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db"), Identity: someone,
		Budget: NewBudget(2 << 20), FlushInterval: time.Hour, FlushBytes: 1 << 30})
	require.Zero(t, db.Memory())
	const rows, size = 100, 1 << 10
	for i := range rows {
		put(t, db, strconv.Itoa(i), strings.Repeat("x", size))
	}
	require.InDelta(t, rows*(size+rowOverhead), db.Memory().Dirty, rows*3)
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 1, Commit: []byte("c")}))
	require.InDelta(t, rows*(size+rowOverhead), db.Memory().Dirty, rows*3, "not in the file yet")
	require.NoError(t, db.Flush())
	require.Zero(t, db.Memory().Dirty)
	require.InDelta(t, rows*(size+rowOverhead), db.Memory().Cached, rows*3)
	for i := range 20 * rows {
		put(t, db, strconv.Itoa(i), strings.Repeat("x", size))
	}
	require.NoError(t, db.Commit(time.Unix(2, 0), Meta{Next: 2, Commit: []byte("c")}))
	require.NoError(t, db.Flush())
	m := db.Memory()
	require.Positive(t, m.Evicted)
	require.LessOrEqual(t, m.Cached, int64(1<<20))
}

// TestEveryCommitKeepsTheListOfFreePages: an open need not look at every page, whether the file was
// closed or its process killed.
func TestEveryCommitKeepsTheListOfFreePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	kept := func() bool {
		raw, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second,
			PreLoadFreelist: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, raw.Close()) }()
		has := false
		require.NoError(t, raw.View(func(tx *bolt.Tx) error {
			for p := 0; ; p++ {
				info, err := tx.Page(p)
				if err != nil || info == nil {
					return err
				}
				has = has || info.Type == "freelist"
			}
		}))
		return has
	}
	db := open(t, Options{Path: path, Identity: someone, BootID: "b"})
	put(t, db, "a", "1")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 2, Commit: []byte("c")}))
	require.NoError(t, db.Close())
	require.True(t, kept())
	db = open(t, Options{Path: path, Identity: someone, BootID: "b"})
	require.Equal(t, "1", get(t, db, "a"))
	put(t, db, "a", "2")
	require.NoError(t, db.Commit(time.Unix(1, 0), Meta{Next: 3, Commit: []byte("c")}))
	require.NoError(t, db.Flush())
	require.NoError(t, db.Kill())
	require.True(t, kept())
	db = open(t, Options{Path: path, Identity: someone, BootID: "b"})
	require.Equal(t, "2", get(t, db, "a"))
}
