package server

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// TestKIP207_LatestOffsetWaitsForTheNewLeader: what the last leader may have told as committed is
// not synced in the new epoch yet, so the latest offset is not there: it would go back.
func TestKIP207_LatestOffsetWaitsForTheNewLeader(t *testing.T) {
	dir, err := storage.OpenDir(t.Context(), storage.DirOptions{
		FS: vfs.NewMem(), Path: "/data", NodeID: 1,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	replicas, err := replica.New(replica.Options{Dir: dir, NodeID: 1})
	require.NoError(t, err)
	defer replicas.Close()
	id, image := uuid.New(), metadata.NewImage(1, nil)
	lead := func(version int64, epoch int32) {
		d := metadata.NewDelta(image)
		require.NoError(t, d.Apply(&metadata.TopicRecord{Name: "t", ID: id}))
		require.NoError(t, d.Apply(&metadata.PartitionRecord{TopicID: id,
			Partition: metadata.Partition{Leader: 1, LeaderEpoch: epoch, Replicas: []int32{1},
				ISR: []int32{1}}}))
		require.NoError(t, replicas.Apply(d.Image(version)))
	}
	lead(1, 0)
	p, err := replicas.Partition(storage.TopicPartition{Topic: "t"})
	require.NoError(t, err)
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Timestamp: 5, Value: []byte("x")})
	records, err := b.Build()
	require.NoError(t, err)
	_, err = p.Append(records, replica.AppendOptions{Acks: 1})
	require.NoError(t, err)

	s := &Server{opts: Options{Replicas: replicas}}
	list := func(version int16, timestamp int64) (int16, int64) {
		in := kmsg.NewListOffsetsRequestTopicPartition()
		in.Timestamp = timestamp
		out := s.listOffset("t", &in, version, readUncommitted)
		return out.ErrorCode, out.Offset
	}
	require.Zero(t, p.HighWatermark(), "nobody syncs here")
	code, offset := list(8, offsetLatest)
	require.Equal(t, []int64{0, 0}, []int64{int64(code), offset}, "the first epoch starts at 0")
	lead(2, 1)
	for _, timestamp := range []int64{offsetLatest, 0, 100} {
		code, offset = list(8, timestamp)
		require.Equal(t, []int64{78, -1}, []int64{int64(code), offset}, "time %d", timestamp)
		code, _ = list(4, timestamp)
		require.Equal(t, int16(5), code)
	}
	code, offset = list(8, offsetEarliest)
	require.Equal(t, []int64{0, 0}, []int64{int64(code), offset})
	require.NoError(t, p.Log().Sync(context.Background()))
	code, offset = list(8, offsetLatest)
	require.Equal(t, []int64{0, 1}, []int64{int64(code), offset})
}
