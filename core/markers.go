package core

import (
	"context"
	"fmt"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/server"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/txn"
)

// markerSender brings transaction markers to the partitions of this node: to __consumer_offsets by
// way of the group coordinator, whose memory they change, to all others directly.
type markerSender struct {
	replicas *replica.Manager
	groups   *group.Coordinator
	image    func() *metadata.Image
}

var _ txn.MarkerSender = (*markerSender)(nil)

// codeNotLeader is NOT_LEADER_OR_FOLLOWER: try again.
const codeNotLeader = 6

// WriteMarker implements txn.MarkerSender.
func (s *markerSender) WriteMarker(
	ctx context.Context, topic string, partition int32, m record.ControlOptions, version int16,
) txn.ErrorCode {
	t, ok := s.image().Topic(topic)
	if !ok || partition < 0 || int(partition) >= len(t.Partitions) {
		return coordinator.CodeNone // deleted, and the transaction with it
	}
	if topic != group.TopicName {
		tp := storage.TopicPartition{Topic: topic, Partition: partition}
		return txn.ErrorCode(server.ErrorCode(s.append(ctx, tp, m, version)))
	}
	switch code := s.groups.WriteMarker(ctx, partition, m, version); code {
	case coordinator.CodeNotCoordinator, coordinator.CodeCoordinatorLoadInProgress,
		coordinator.CodeCoordinatorNotAvailable:
		return codeNotLeader
	default:
		return code
	}
}

// append writes a marker and waits until it is committed.
func (s *markerSender) append(
	ctx context.Context, tp storage.TopicPartition, m record.ControlOptions, version int16,
) error {
	p, err := s.replicas.Partition(tp)
	if err == nil {
		m.LeaderEpoch = p.LeaderEpoch()
		_, err = p.AppendAndWait(ctx, record.ControlBatch(m), replica.AppendOptions{
			Origin: storage.FromTxnCoordinator, TransactionVersion: version,
		})
	}
	if err != nil {
		return fmt.Errorf("write transaction marker: %w", err)
	}
	return nil
}
