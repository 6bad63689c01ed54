package deploy_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

// matched is a revision with a topic that a worker has found.
func matched(r deploy.Revision) deploy.Revision {
	r.Matched = map[string][]string{"in": {"shop-a"}}
	return r
}

// TestFollowGoesOnBehindAnAbandonedRevision: who wrote it was killed before the record that makes
// it wanted. For a minute it may still come.
func TestFollowGoesOnBehindAnAbandonedRevision(t *testing.T) {
	r := newRig(t)
	first := r.apply("p", "one")
	half := first
	half.Number, half.ID, half.AppliedAt = 2, "x", time.Now().UTC()
	r.writeAs("p@2@x", half)
	_, err := r.store.Follow(r.ctx(), matched(first))
	require.ErrorIs(t, err, deploy.ErrConflict)

	first = r.apply("q", "one")
	half.Name, half.AppliedAt = "q", time.Now().Add(-2*time.Minute).UTC()
	r.writeAs("q@2@x", half)
	next, err := r.store.Follow(r.ctx(), matched(first))
	require.NoError(t, err)
	require.Equal(t, 3, next.Number)
	now, err := r.store.Get(r.ctx(), "q")
	require.NoError(t, err)
	require.Equal(t, next, now)
	require.Equal(t, []string{"shop-a"}, now.Matched["in"])
}

// TestFollowUndoesNoOrder: the pipeline is stopped, deleted or replaced meanwhile.
func TestFollowUndoesNoOrder(t *testing.T) {
	r := newRig(t)
	first := r.apply("p", "one")
	_, err := r.store.SetWanted(r.ctx(), "p", deploy.WantStopped)
	require.NoError(t, err)
	_, err = r.store.Follow(r.ctx(), matched(first))
	require.ErrorIs(t, err, deploy.ErrConflict)
	now, err := r.store.Get(r.ctx(), "p")
	require.NoError(t, err)
	require.Equal(t, deploy.WantStopped, now.Wanted)

	require.NoError(t, r.store.Delete(r.ctx(), "p"))
	_, err = r.store.Follow(r.ctx(), matched(first))
	require.ErrorIs(t, err, deploy.ErrConflict)
	_, err = r.store.Get(r.ctx(), "p")
	require.ErrorIs(t, err, deploy.ErrUnknownPipeline)

	r.apply("p", "two")
	_, err = r.store.Follow(r.ctx(), matched(first))
	require.ErrorIs(t, err, deploy.ErrConflict)
}

// TestFollowGoesOnSkippingLostRecords: that was an order without a revision of its own.
func TestFollowGoesOnSkippingLostRecords(t *testing.T) {
	r := newRig(t)
	first := r.apply("p", "one")
	_, err := r.store.StartSkipping(r.ctx(), "p")
	require.NoError(t, err)
	next, err := r.store.Follow(r.ctx(), matched(first))
	require.NoError(t, err)
	require.True(t, next.SkipLost)
}

// TestSlowLookLeavesTimeToFollow: to apply what was found takes another 2 s here.
func TestSlowLookLeavesTimeToFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		slow, err := deploy.OpenStore(r.ctx(), func(opts ...kgo.Opt) (*kgo.Client, error) {
			time.Sleep(500 * time.Millisecond)
			return r.connect(opts...)
		})
		require.NoError(t, err)
		defer slow.Close()
		r.store = slow
		r.apply("p", "pattern")
		stop := r.reconcile()
		defer stop()
		r.await("p", deploy.Running, 2)
		now, err := r.store.Get(r.ctx(), "p")
		require.NoError(t, err)
		require.Equal(t, []string{"shop-a"}, now.Matched["in"])
	})
}

// TestFullBufferHoldsNobodyUp: while the broker is away records wait; when no more may, a write
// fails at once, so its timeout counts.
func TestFullBufferHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		store, err := deploy.OpenStore(r.ctx(), func(opts ...kgo.Opt) (*kgo.Client, error) {
			return r.connect(append(opts, kgo.MaxBufferedRecords(1))...)
		})
		require.NoError(t, err)
		defer store.Close()
		r.cluster.Stop()
		write := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return store.WriteStatus(ctx, deploy.Status{Name: "p"})
		}
		require.ErrorIs(t, write(), context.DeadlineExceeded)
		answer := make(chan error, 1)
		go func() { answer <- write() }()
		select {
		case err = <-answer:
		case <-time.After(10 * time.Second):
		}
		r.cluster.Start()
		require.ErrorIs(t, err, kgo.ErrMaxBuffered)
	})
}
