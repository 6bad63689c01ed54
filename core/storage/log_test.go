package storage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

func TestLogReadsBackWhatWasAppendedAcrossSegmentsAndRestart(t *testing.T) {
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	l := mustCreate(t, d, smallConfig())
	want := int64(0)
	for i := range 60 {
		res := mustAppend(t, l, batchOf(t, 1+i%4, 40, t0+int64(i)))
		require.Equal(t, want, res.BaseOffset)
		want = res.LastOffset + 1
	}
	require.Equal(t, want, l.EndOffset())
	require.Greater(t, len(*l.segments.Load()), 3)
	before := readAll(t, l, 300)
	require.Len(t, before, int(want))
	require.NoError(t, d.Close())

	d = mustOpen(t, fsys, "/data")
	require.True(t, d.WasClean())
	l, ok := d.Log(tp0)
	require.True(t, ok)
	require.NoError(t, l.Err())
	require.Equal(t, want, l.EndOffset())
	require.Equal(t, before, readAll(t, l, 1<<20))
	res := mustAppend(t, l, batchOf(t, 1, 40, t0))
	require.Equal(t, want, res.BaseOffset)
}
