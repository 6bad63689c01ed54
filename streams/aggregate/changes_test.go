package aggregate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// TestWhatIsToBeTakenBackStays: a session that was told is gone, comes again, and is gone before
// anybody heard of it: what was told the first time must still be taken back.
func TestWhatIsToBeTakenBackStays(t *testing.T) {
	db, err := state.Open(state.Options{})
	require.NoError(t, err)
	c := &changes{rows: db.Store("changed"), every: 10}
	w, key := operator.Window{Start: 10, End: 20}, []byte("k")
	require.NoError(t, c.gone(w, key, true, []byte("R1")))
	require.NoError(t, c.mark(w, key, nil))
	require.NoError(t, c.gone(w, key, false, nil))
	changed, told, err := c.pop(w, key)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "R1", string(told))

	require.NoError(t, c.mark(w, key, nil))
	require.NoError(t, c.gone(w, key, false, nil))
	changed, _, err = c.pop(w, key)
	require.NoError(t, err)
	require.False(t, changed, "nobody heard of it")
}
