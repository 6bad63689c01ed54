package task

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

// TestBoundedRunEndsWhenItsResultsCanBeRead: a transaction of another producer before them keeps
// readers from the results, so the run goes on until it is over.
func TestBoundedRunEndsWhenItsResultsCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := filled(t, 2, 50)
		other := openBefore(t, m)
		w, err := NewWorker(countOptions(m, 2, ""))
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context()) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Empty(t, ended, "its results cannot be read yet")
		require.NoError(t, other.Commit(t.Context(), "other", nil))
		require.NoError(t, <-ended)
		for _, task := range w.Status().Tasks {
			require.Equal(t, Done, task.Phase)
		}
	})
}

// TestBoundedRunEndsWithAWarningBehindAnEndlessTransaction: what was committed stays so, and the
// log says which partition cannot be read.
func TestBoundedRunEndsWithAWarningBehindAnEndlessTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := filled(t, 1, 50)
		openBefore(t, m)
		o := countOptions(m, 1, "")
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w, err := NewWorker(o)
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, w.Run(t.Context()))
		require.WithinDuration(t, began.Add(30*time.Second), time.Now(), 2*time.Second)
		require.Contains(t, log.String(), "the results are committed, but not all of them can be read")
		require.Contains(t, log.String(), "side-0 is read up to 0 of ")
		require.Contains(t, log.String(), "another producer has a transaction open")
	})
}

// openBefore leaves a transaction open at the start of an output.
func openBefore(t *testing.T, m *client.Memory) client.Transactor {
	other, err := m.Transactor(t.Context(), "other")
	require.NoError(t, err)
	_, err = other.Send(t.Context(), client.TopicPartition{Topic: "side"},
		[]record.Record{{Value: []byte("not yet")}})
	require.NoError(t, err)
	return other
}
