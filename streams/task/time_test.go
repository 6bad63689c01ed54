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

// commits counts the commit records of the counter's first task.
func commits(m *client.Memory) int {
	n := 0
	for _, r := range m.Records(client.TopicPartition{Topic: "app-counts-changelog"}) {
		if state.IsMetaKey(r.Key) {
			n++
		}
	}
	return n
}

// TestCommitComesAnIntervalAfterARecord: a task that has caught up commits an eighth of the
// interval after its last commit, and an idle task commits nothing.
func TestCommitComesAnIntervalAfterARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := filled(t, 1, 0)
		o := countOptions(m, 1, "")
		o.Bounded, o.CommitInterval = false, 200*time.Millisecond
		w, err := NewWorker(o)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		require.Equal(t, 1, commits(m), "the first, before anything is read")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, commits(m), "idle")

		in := client.TopicPartition{Topic: "in"}
		require.NoError(t, m.Append(in, record.Record{Key: []byte("a")}))
		synctest.Wait()
		require.Equal(t, 2, commits(m), "at once: the last commit is long ago")
		require.NoError(t, m.Append(in, record.Record{Key: []byte("b")}))
		synctest.Wait()
		require.Equal(t, 2, commits(m))
		time.Sleep(24 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, commits(m))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 3, commits(m))
		require.Len(t, m.Records(client.TopicPartition{Topic: "side"}), 1)
		time.Sleep(200 * time.Millisecond)
		offsets, err := m.Admin().CommittedOffsets(t.Context(), "app")
		require.NoError(t, err)
		require.Equal(t, map[client.TopicPartition]int64{in: 2}, offsets)

		for i := range 10 { // ten records in a tenth of a second: five commits, not ten
			require.NoError(t, m.Append(in, record.Record{Key: []byte{byte(i)}}))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.InDelta(t, 8, commits(m), 1)
		stop()
		require.NoError(t, <-ended)
	})
}

// gated is a counter that processes nothing until it is opened.
type gated struct {
	processor
	open chan struct{}
}

func (g *gated) Run(limit int) (int, error) {
	<-g.open
	return g.processor.Run(limit)
}

// TestInboxBoundStopsTheFetching: a task that does not get on stops the fetching for it at its
// inbox's bound, and everything is processed when it goes on.
func TestInboxBoundStopsTheFetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := filled(t, 1, 5000)
		m.SetMaxPoll(10)
		o := countOptions(m, 1, "")
		o.InboxBytes, o.CommitInterval = 10_000, 200*time.Millisecond
		open := make(chan struct{})
		o.newCore = func(c CoreOptions) (processor, error) {
			inner, err := newCounter(c)
			return &gated{inner, open}, err
		}
		w, err := NewWorker(o)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		box := w.seats[0].loop.inbox
		box.mu.Lock()
		held := box.mu.bytes
		require.True(t, box.mu.paused)
		box.mu.Unlock()
		require.Greater(t, held, int64(10_000))
		require.Less(t, held, int64(10_000+10*200), "one poll more than the bound")
		close(open)
		require.NoError(t, <-ended)
		require.Equal(t, expected(m, 1), lanesOf(t, m, outTopics))
	})
}

// TestRunReturnsThoughTheLogIsSilent: a log that does not answer cannot keep Run from returning.
func TestRunReturnsThoughTheLogIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := filled(t, 1, 10)
		o := countOptions(m, 1, "")
		o.Bounded, o.CommitInterval = false, time.Hour
		o.Cluster = silent{m}
		w, err := NewWorker(o)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		began := time.Now()
		stop()
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}

// silent is a cluster whose transactions get no answer after the first few.
type silent struct{ *client.Memory }

func (s silent) Transactor(ctx context.Context, id string) (client.Transactor, error) {
	txn, err := s.Memory.Transactor(ctx, id)
	return &silentTransactor{Transactor: txn, left: 1}, err
}

type silentTransactor struct {
	client.Transactor
	left int
}

func (p *silentTransactor) Commit(ctx context.Context, group string,
	next map[client.TopicPartition]int64,
) error {
	if p.left--; p.left >= 0 {
		return p.Transactor.Commit(ctx, group, next)
	}
	<-ctx.Done()
	return ctx.Err()
}
