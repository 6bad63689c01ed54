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
	require.Eventually(t, func() bool { return commit(1) == nil }, 10*time.Second,
		10*time.Millisecond)

	remove := disk.Inject(vfs.Rule{
		Op: vfs.OpWrite, Path: "__consumer_offsets", Err: syscall.ENOSPC,
	})
	require.ErrorIs(t, commit(2), kerr.CoordinatorNotAvailable)
	fetched, err := f.admin.FetchOffsets(ctx, "app")
	require.NoError(t, err)
	require.EqualValues(t, 1, fetched[testTopic][0].At)
	remove()
	require.Eventually(t, func() bool { return commit(3) == nil }, 10*time.Second,
		10*time.Millisecond)
	fetched, err = f.admin.FetchOffsets(ctx, "app")
	require.NoError(t, err)
	require.EqualValues(t, 3, fetched[testTopic][0].At)
	f.Restart()
	require.Eventually(t, func() bool {
		fetched, err = f.admin.FetchOffsets(ctx, "app")
		return err == nil && fetched[testTopic][0].At == 3
	}, 10*time.Second, 10*time.Millisecond)
}
