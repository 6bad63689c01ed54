package task

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs/smalldisk"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// TestFullDiskStopsATaskAtItsBound runs in a process that mounts a file system of 16 MiB and fills
// it. Rows that the file does not take stay in memory; when they are as many as may stay there, the
// task ends with a reason that can pass. With space it goes on where it was.
func TestFullDiskStopsATaskAtItsBound(t *testing.T) {
	smalldisk.Run(t, 16<<20, func(dir string) { onFullDisk(t, dir) })
}

func onFullDisk(t *testing.T, dir string) {
	m := filled(t, 1, 10)
	_, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	remove := smalldisk.Fill(t, dir)

	for i := range 200 { // 2 MiB of rows; with a budget this small one task may keep 1 MiB
		key := make([]byte, 10<<10)
		key[0] = byte(i)
		require.NoError(t, m.Append(client.TopicPartition{Topic: "in"}, record.Record{Key: key}))
	}
	o := countOptions(m, 1, dir)
	o.State.FlushInterval, o.State.Budget = 1, state.NewBudget(1)
	w, err := runWorker(t.Context(), t, o)
	require.ErrorIs(t, err, ErrStateFull)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Less(t, w.Status().Tasks[0].Processed, int64(200))

	remove()
	_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	requireLanes(t, expected(m, 1), lanesOf(t, m, outTopics))
}
