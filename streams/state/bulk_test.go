package state

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestARestoreInBulkIsThatOfEachRecord: the last record of a key counts, a deletion too, and what
// was written by an earlier part of the restore is taken back by a later one.
func TestARestoreInBulkIsThatOfEachRecord(t *testing.T) {
	db := open(t, Options{Path: filepath.Join(t.TempDir(), "db")})
	key := func(k string) []byte { return append(bucketID{name: "s"}.appendPrefix(nil), k...) }
	bulk, ok := db.NewBulk()
	require.True(t, ok)
	for _, row := range []struct{ key, value string }{
		{"replaced", "1"}, {"gone at once", "1"}, {"gone later", "1"}, {"stays", "1"},
		{"replaced", "2"}, {"gone at once", ""}, {"back", ""}, {"back", "3"},
	} {
		value := []byte(row.value)
		if row.value == "" {
			value = nil
		}
		bulk.Add(key(row.key), value)
	}
	require.NoError(t, bulk.Write(Meta{Next: 8}))
	bulk.Add(key("gone later"), nil)
	require.NoError(t, bulk.Write(Meta{Next: 9, Commit: []byte("c")}))
	require.Equal(t, Meta{Next: 9, Commit: []byte("c")}, db.Meta())
	require.Equal(t, map[string]string{string(key("replaced")): "2", string(key("stays")): "1",
		string(key("back")): "3"}, contents(t, db))
}
