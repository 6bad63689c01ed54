package offsets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableForgetsWhatIsEmpty(t *testing.T) {
	table := NewTable()
	table.Put("g", "t", 1, Commit{Offset: 1})
	table.Put("g", "t", 0, Commit{Offset: 2})
	table.Put("g", "a", 7, Commit{Offset: 3})
	table.Put("g", "t", 0, Commit{Offset: 4})
	require.Equal(t, 3, table.Len())
	require.Equal(t, []string{"a", "t"}, table.Topics("g"))
	require.Equal(t, []int32{0, 1}, table.Partitions("g", "t"))
	c, ok := table.Get("g", "t", 0)
	require.True(t, ok)
	require.EqualValues(t, 4, c.Offset)

	table.Remove("g", "t", 9)
	table.Remove("other", "t", 0)
	table.Remove("g", "t", 0)
	table.Remove("g", "t", 1)
	require.Equal(t, []string{"a"}, table.Topics("g"))
	require.True(t, table.Has("g"))
	table.Remove("g", "a", 7)
	require.False(t, table.Has("g"))
	require.Zero(t, table.Len())
	require.Empty(t, table.Groups())
}
