package task

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// TestRowsOfAQuietInputReachTheStateFile: one record and then nothing; 6 s later its row is in the
// file, though no commit follows.
func TestRowsOfAQuietInputReachTheStateFile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := client.NewMemory()
		require.NoError(t, m.Admin().CreateTopics(t.Context(),
			client.TopicSpec{Name: "in", Partitions: 2}, client.TopicSpec{Name: "out", Partitions: 1}))
		w, err := NewWorker(Options{Topology: counted(t, "app", "out", 0), Cluster: m, StateDir: dir,
			CommitInterval: 200 * time.Millisecond})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		for p := range int32(2) {
			require.NoError(t, m.Append(client.TopicPartition{Topic: "in", Partition: p},
				record.Record{Timestamp: 1, Value: []byte("a")}))
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		var lag int64 = -1
		for _, p := range w.Parts("by") {
			require.NoError(t, p.View(func(_ *state.View, at Position) error {
				lag = at.Lag
				return nil
			}))
		}
		require.Zero(t, lag, "changelog records that are not in the file")
		cancel()
		require.NoError(t, <-ended)
	})
}
