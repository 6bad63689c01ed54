package group_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/vfs"
)

// A commit that does not fit on the disk is refused with a code that clients retry, the offsets
// stay as they were, and commits work again when there is space. Members keep their places.
func TestCommitsWhenDiskIsFull(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	f := &fixture{Cluster: coretest.Start(t, coretest.Options{FS: disk}), t: t}
	f.producer = dial(t, f.Cluster, kgo.RequestRetries(0))
	t.Cleanup(f.producer.Close)
	f.admin = kadm.NewClient(f.producer)
	ctx := t.Context()
	_, err := f.admin.CreateTopic(ctx, 1, 1, nil, testTopic)
	require.NoError(t, err)
	commit := func(at int64) error {
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: testTopic, At: at, LeaderEpoch: -1})
		committed, err := f.admin.CommitOffsets(ctx, "app", offsets)
		return errors.Join(err, committed.Error())
	}
	require.Eventually(t, func() bool { return commit(1) == nil }, time.Minute,
		10*time.Millisecond)

	remove := disk.Inject(vfs.Rule{
		Op: vfs.OpWrite, Path: "__consumer_offsets", Err: syscall.ENOSPC,
	})
	require.ErrorIs(t, commit(2), kerr.CoordinatorNotAvailable)
	fetched, err := f.admin.FetchOffsets(ctx, "app")
	require.NoError(t, err)
	require.EqualValues(t, 1, fetched[testTopic][0].At)
	remove()
	require.Eventually(t, func() bool { return commit(3) == nil }, time.Minute,
		10*time.Millisecond)
	fetched, err = f.admin.FetchOffsets(ctx, "app")
	require.NoError(t, err)
	require.EqualValues(t, 3, fetched[testTopic][0].At)
	f.Restart()
	require.Eventually(t, func() bool {
		fetched, err = f.admin.FetchOffsets(ctx, "app")
		return err == nil && fetched[testTopic][0].At == 3
	}, time.Minute, 10*time.Millisecond)
}

// A commit whose sync takes longer than the broker waits may or may not be kept. The client is told
// to ask again, and what the broker answers afterwards is what the disk holds.
func TestCommitThatTimesOutIsNotForgotten(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	f := &fixture{t: t, Cluster: coretest.Start(t, coretest.Options{
		FS: disk, Config: map[string]string{"offsets.commit.timeout.ms": "100"},
	})}
	f.producer = dial(t, f.Cluster, kgo.RequestRetries(0))
	t.Cleanup(f.producer.Close)
	f.admin = kadm.NewClient(f.producer)
	ctx := t.Context()
	_, err := f.admin.CreateTopic(ctx, 1, 1, nil, testTopic)
	require.NoError(t, err)
	commit := func(at int64) error {
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: testTopic, At: at, LeaderEpoch: -1})
		committed, err := f.admin.CommitOffsets(ctx, "app", offsets)
		return errors.Join(err, committed.Error())
	}
	fetched := func() int64 {
		offsets, err := f.admin.FetchOffsets(ctx, "app")
		if err != nil {
			return -1
		}
		return offsets[testTopic][0].At
	}
	require.Eventually(t, func() bool { return commit(1) == nil }, time.Minute,
		10*time.Millisecond)

	remove := disk.Inject(vfs.Rule{ // whichever file the commit is made durable in
		Op: vfs.OpSync, Delay: 500 * time.Millisecond,
	})
	require.ErrorIs(t, commit(2), kerr.NotCoordinator)
	remove()
	require.Eventually(t, func() bool { return fetched() >= 0 }, time.Minute,
		10*time.Millisecond)
	require.EqualValues(t, 2, fetched(), "it is in the log")
	f.Restart()
	require.Eventually(t, func() bool { return fetched() >= 0 }, time.Minute,
		10*time.Millisecond)
	require.EqualValues(t, 2, fetched())
}
