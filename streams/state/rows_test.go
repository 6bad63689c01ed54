package state

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTableIsAMap: whatever is added, changed and removed, and whenever the bytes are put together
// anew, the table finds what a map finds.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows table
		want := map[string]string{}
		value := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, n*n%40_000) }
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			key := []byte(rapid.StringMatching("[a-c]{0,4}").Draw(t, "key"))
			n, ok := rows.find(key)
			_, has := want[string(key)]
			require.Equal(t, has, ok)
			switch {
			case ok && rapid.Bool().Draw(t, "remove"):
				rows.remove(n)
				delete(want, string(key))
				continue
			case !ok:
				n = rows.add(key)
			}
			v := value(rapid.IntRange(0, 255).Draw(t, "value"))
			rows.set(&rows.row(n).val, v)
			want[string(key)] = string(v)
			rows.tidy()
		}
		got := map[string]string{}
		rows.each(func(n uint32, r *row) { got[string(rows.keyOf(n))] = string(rows.bytes(r.val)) })
		require.Equal(t, want, got)
		require.Equal(t, len(want), rows.len())
		for key := range want {
			_, ok := rows.find([]byte(key))
			require.True(t, ok)
		}
	})
}

// TestATableDoesNotKeepWhatWasReplaced: a row that grows and shrinks for ever takes what it needs.
func TestATableDoesNotKeepWhatWasReplaced(t *testing.T) {
	var rows table
	n := rows.add([]byte("key"))
	for i := range 10_000 {
		rows.set(&rows.row(n).val, make([]byte, 1000+i))
		m := rows.add([]byte("other"))
		rows.set(&rows.row(m).val, make([]byte, 2000))
		rows.remove(m)
		rows.tidy()
	}
	require.Less(t, rows.total, int64(256<<10))
	require.Less(t, rows.used, uint32(4))
}

// TestAWindowThatNoCommitKnowsLeavesMemoryAtOnce: its rows are in no changelog and no file, so its
// drop tells nobody anything.
func TestAWindowThatNoCommitKnowsLeavesMemoryAtOnce(t *testing.T) {
	db := open(t, Options{})
	w := db.Windows("w")
	for _, key := range []string{"a", "b"} {
		require.NoError(t, w.Window(5).Put([]byte(key), []byte("value")))
	}
	require.NoError(t, w.Drop(5))
	require.Zero(t, db.PendingBytes())
	require.Zero(t, db.cacheBytes)
	require.NoError(t, w.Window(5).Put([]byte("c"), []byte("again")))
	var changed []string
	require.NoError(t, db.Changes(func(key, value []byte) error {
		changed = append(changed, string(key[len(key)-1:])+"="+string(value))
		return nil
	}))
	require.Equal(t, []string{"c=again"}, changed)
}
