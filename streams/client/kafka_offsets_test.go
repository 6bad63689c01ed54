package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

func connect(t *testing.T, o coretest.Options) *Kafka {
	broker := coretest.Start(t, o)
	k, err := NewKafka(Options{Seeds: []string{broker.Addr()}, Dialer: broker.Dialer()})
	require.NoError(t, err)
	t.Cleanup(k.Close)
	require.NoError(t, k.Admin().CreateTopics(t.Context(), TopicSpec{Name: "t", Partitions: 1}))
	return k
}

// stable asks for the offset of t-0 in group g as it will stay.
func stable(t *testing.T, k *Kafka) (kadm.OffsetResponse, bool) {
	answers, err := k.admin.client.FetchOffsets(kadm.RequireStable(t.Context()), "g")
	require.NoError(t, err)
	return answers.Lookup("t", 0)
}

// TestOpenOffsetsHoldUpNobody: a process dies after its offsets went into a transaction and before
// the end. The group's offset is UNSTABLE_OFFSET_COMMIT then, which for a task is no loss and
// nothing to wait for: its positions are in its changelog. Who takes the id over ends the
// transaction, and the offset is what it was.
func TestOpenOffsetsHoldUpNobody(t *testing.T) {
	k := connect(t, coretest.Options{})
	tp := TopicPartition{Topic: "t"}
	next := func(id string) *kafkaTransactor {
		x, err := k.Transactor(t.Context(), id)
		require.NoError(t, err)
		t.Cleanup(x.Close)
		_, err = x.Send(t.Context(), tp, []record.Record{{Value: []byte("v")}})
		require.NoError(t, err)
		return x.(*kafkaTransactor)
	}
	require.NoError(t, next("x").Commit(t.Context(), "g", map[TopicPartition]int64{tp: 3}))
	dead := next("x")
	require.NoError(t, dead.Flush(t.Context()))
	require.NoError(t, dead.offsets(t.Context(), "g", map[TopicPartition]int64{tp: 7}))

	o, _ := stable(t, k)
	require.ErrorIs(t, o.Err, kerr.UnstableOffsetCommit)
	have, err := k.Admin().CommittedOffsets(t.Context(), "g")
	require.NoError(t, err)
	require.Equal(t, map[TopicPartition]int64{tp: 3}, have)

	after := next("x")
	o, ok := stable(t, k)
	require.True(t, ok)
	require.NoError(t, o.Err)
	require.EqualValues(t, 3, o.At)
	require.ErrorIs(t, dead.Commit(t.Context(), "g", nil), ErrLost)
	require.NoError(t, after.Commit(t.Context(), "g", map[TopicPartition]int64{tp: 8}))
	require.NoError(t, after.Readable(t.Context()))
	have, err = k.Admin().CommittedOffsets(t.Context(), "g")
	require.NoError(t, err)
	require.Equal(t, map[TopicPartition]int64{tp: 8}, have)
}

// TestMovingCoordinatorIsWaitedOut: each of these answers comes for a while, longer
// each time it is asked, and is neither a loss nor an error.
func TestMovingCoordinatorIsWaitedOut(t *testing.T) {
	for _, answer := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress,
		kerr.CoordinatorNotAvailable, kerr.ConcurrentTransactions, kerr.UnstableOffsetCommit} {
		synctest.Test(t, func(t *testing.T) {
			began, asked := time.Now(), []time.Duration(nil)
			require.NoError(t, settled(t.Context(), func() error {
				asked = append(asked, time.Since(began))
				if len(asked) < 6 {
					return fmt.Errorf("t-0: %w", answer)
				}
				return nil
			}))
			require.Len(t, asked, 6)
			require.Greater(t, asked[5]-asked[4], asked[1]-asked[0], answer.Message)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := settled(ctx, func() error { return kerr.UnstableOffsetCommit })
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, lost(err), ErrLost)
}

// TestExpiredTransactionalIDIsLost: the log forgot the id of a producer that said nothing for
// transactional.id.expiration.ms. What it sends is refused as lost, and the next holder goes on.
func TestExpiredTransactionalIDIsLost(t *testing.T) {
	k := connect(t, coretest.Options{Config: map[string]string{
		"transactional.id.expiration.ms":                             "2000",
		"transaction.remove.expired.transaction.cleanup.interval.ms": "20"}})
	tp := TopicPartition{Topic: "t"}
	commit := func(x Transactor, value string) error {
		_, err := x.Send(t.Context(), tp, []record.Record{{Value: []byte(value)}})
		if err == nil {
			err = x.Commit(t.Context(), "g", map[TopicPartition]int64{tp: 1})
		}
		return err
	}
	x, err := k.Transactor(t.Context(), "x")
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, commit(x, "first"))
	require.Eventually(t, func() bool {
		described, err := k.admin.client.DescribeTransactions(t.Context(), "x")
		return err == nil && errors.Is(described["x"].Err, kerr.TransactionalIDNotFound)
	}, time.Minute, 10*time.Millisecond)
	err = commit(x, "lost")
	require.ErrorIs(t, err, ErrLost)
	require.ErrorIs(t, err, kerr.InvalidProducerIDMapping)
	again, err := k.Transactor(t.Context(), "x")
	require.NoError(t, err)
	defer again.Close()
	require.NoError(t, commit(again, "second"))
}
