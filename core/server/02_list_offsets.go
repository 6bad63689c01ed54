package server

import (
	"context"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/replica"
)

// ListOffsets (key 2), versions 1 to 11.
//
//   - A timestamp finds the first record at or after it, below the high watermark, or with
//     read_committed below the last stable offset; none is offset -1, timestamp -1, epoch -1 and no
//     error. Latest is that limit.
//   - Specials: -2 earliest, -1 latest, -3 largest timestamp (version 7, KIP-734), -4 earliest
//     local (8), -5 latest tiered (9), -6 earliest pending upload (11). There is no tiered
//     storage, so -4 is -2, and -5 and -6 find nothing.
//   - OFFSET_NOT_AVAILABLE for the latest offset, and for a time that finds nothing, while not all
//     of the last leader's records are committed anew (KIP-207); LEADER_NOT_AVAILABLE before
//     version 5.
//   - A special that the version does not know is UNSUPPORTED_VERSION.
//   - A partition that is named twice is answered once, INVALID_REQUEST.

// Special timestamps.
const (
	offsetLatest         = -1
	offsetEarliest       = -2
	offsetMaxTimestamp   = -3
	offsetEarliestLocal  = -4
	offsetLatestTiered   = -5
	offsetPendingUpload  = -6
	lowestSpecialOffset  = offsetPendingUpload
	noTimestamp          = int64(-1)
	noOffset             = int64(-1)
	noLeaderEpoch        = int32(-1)
	versionMaxTimestamp  = 7
	versionEarliestLocal = 8

	versionOffsetNotAvailable = 5

	versionLatestTiered  = 9
	versionPendingUpload = 11
)

func (s *Server) listOffsets(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.ListOffsetsRequest)
	resp := response[*kmsg.ListOffsetsResponse](r)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = t.Topic
		asked := make(map[int32]int, len(t.Partitions))
		for j := range t.Partitions {
			asked[t.Partitions[j].Partition]++
		}
		for j := range t.Partitions {
			in := &t.Partitions[j]
			switch n := asked[in.Partition]; n {
			case 0: // refused already
			case 1:
				topic.Partitions = append(topic.Partitions,
					s.listOffset(t.Topic, in, r.version, req.IsolationLevel))
			default:
				topic.Partitions = append(topic.Partitions, listedTwice(in.Partition))
				asked[in.Partition] = 0
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// listedTwice refuses a partition that a request names more than once.
func listedTwice(partition int32) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition, out.ErrorCode = partition, kerr.InvalidRequest.Code
	out.Timestamp, out.Offset, out.LeaderEpoch = noTimestamp, noOffset, noLeaderEpoch
	return out
}

// listOffset answers for one partition.
func (s *Server) listOffset(
	topic string, in *kmsg.ListOffsetsRequestTopicPartition, version int16, isolation int8,
) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition = in.Partition
	out.Timestamp, out.Offset, out.LeaderEpoch = noTimestamp, noOffset, noLeaderEpoch
	if isolation != readUncommitted && isolation != readCommitted {
		out.ErrorCode = kerr.UnknownServerError.Code // as Kafka
		return out
	}
	if !specialKnown(in.Timestamp, version) {
		out.ErrorCode = kerr.UnsupportedVersion.Code
		return out
	}
	p, err := s.partition([]byte(topic), uuid.Nil, false, in.Partition)
	if err == nil {
		err = checkEpoch(p, in.CurrentLeaderEpoch)
	}
	if err == nil {
		err = findOffset(p, in.Timestamp, isolation == readCommitted, &out)
	}
	if err != nil {
		out.ErrorCode = errorCode(err)
	}
	if out.ErrorCode == kerr.OffsetNotAvailable.Code && version < versionOffsetNotAvailable {
		out.ErrorCode = kerr.LeaderNotAvailable.Code
	}
	return out
}

// caughtUp returns OFFSET_NOT_AVAILABLE while the high watermark of a new leader is below the start
// of its epoch: the last leader may have told a higher one (KIP-207).
func caughtUp(p *replica.Partition) error {
	if _, start := p.OffsetForLeaderEpoch(p.LeaderEpoch() - 1); start > p.HighWatermark() {
		return kerr.OffsetNotAvailable
	}
	return nil
}

// checkEpoch checks the leader epoch that a client has; -1 is no check, less is older than any.
func checkEpoch(p *replica.Partition, epoch int32) error {
	if epoch < noLeaderEpoch {
		return replica.ErrFencedLeaderEpoch
	}
	return p.CheckEpoch(epoch)
}

// specialKnown tells whether a version knows the special timestamp ts; times are always known.
func specialKnown(ts int64, version int16) bool {
	switch ts {
	case offsetMaxTimestamp:
		return version >= versionMaxTimestamp
	case offsetEarliestLocal:
		return version >= versionEarliestLocal
	case offsetLatestTiered:
		return version >= versionLatestTiered
	case offsetPendingUpload:
		return version >= versionPendingUpload
	}
	return ts > lowestSpecialOffset
}

// findOffset looks ts up in p, below the last stable offset if committed.
func findOffset(
	p *replica.Partition, ts int64, committed bool, out *kmsg.ListOffsetsResponseTopicPartition,
) error {
	switch ts {
	case offsetLatest:
		if err := caughtUp(p); err != nil {
			return err
		}
		out.Offset, out.LeaderEpoch = readLimit(p, committed), p.LeaderEpoch()
	case offsetEarliest, offsetEarliestLocal:
		out.Offset, out.LeaderEpoch = p.StartOffset(), p.EpochOf(p.StartOffset())
	case offsetLatestTiered, offsetPendingUpload:
	default:
		var found bool
		var at replica.Timestamped
		var err error
		if ts == offsetMaxTimestamp {
			at, found, err = p.MaxTimestamp(committed)
		} else {
			at, found, err = p.OffsetForTimestamp(ts, committed)
		}
		if err != nil {
			return err
		}
		if !found {
			return caughtUp(p)
		}
		out.Timestamp, out.Offset, out.LeaderEpoch = at.Timestamp, at.Offset, at.LeaderEpoch
	}
	return nil
}
