package server

import (
	"context"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
)

// OffsetCommit (key 8), versions 2 to 10.
//
//   - Each partition has its own code, in the order of the request; a topic or partition that does
//     not exist is UNKNOWN_TOPIC_OR_PARTITION, a topic id (version 10, KIP-848) UNKNOWN_TOPIC_ID.
//   - A generation in a group that does not exist is ILLEGAL_GENERATION, from version 9 on
//     GROUP_ID_NOT_FOUND.
//   - A member of a consumer group (KIP-848) commits in its member epoch, from version 9 on; below
//     it is told UNSUPPORTED_VERSION. An older epoch is fine for a partition that it had then
//     (KIP-1251), otherwise all is STALE_MEMBER_EPOCH.
//   - The leader epoch is kept and given back by OffsetFetch (version 6, KIP-320).
//   - Versions 2 to 4 may ask for their own retention time; later ones follow KIP-211.
//   - The answer comes when the offsets are durable.
//   - Offsets go when their topic is deleted; they are kept with its id, so that what is left of
//     them is not taken for those of a topic that is made again under the name.

func (s *Server) offsetCommit(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetCommitRequest)
	resp := response[*kmsg.OffsetCommitResponse](r)
	commit := group.CommitRequest{
		GroupID: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID,
		Generation: req.Generation, RetentionMS: req.RetentionTimeMillis,
		APIVersion: r.version,
	}
	image := s.image()
	var committed []*int16 // where the code of each offset in commit goes
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = in.Topic, in.TopicID
		topic, missing := lookupTopic(image, in.Topic, in.TopicID, r.version >= 10)
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(in.Partitions))
		for j := range in.Partitions {
			p := &in.Partitions[j]
			out.Partitions[j] = kmsg.NewOffsetCommitResponseTopicPartition()
			out.Partitions[j].Partition = p.Partition
			if topic == nil || p.Partition < 0 || int(p.Partition) >= len(topic.Partitions) {
				out.Partitions[j].ErrorCode = missing
				continue
			}
			commit.Offsets = append(commit.Offsets,
				offsetCommitted(topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata))
			committed = append(committed, &out.Partitions[j].ErrorCode)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(commit.Offsets) == 0 {
		return resp, nil
	}
	for i, code := range s.opts.Groups.CommitOffsets(ctx, commit).Codes {
		if code == coordinator.CodeGroupIDNotFound && r.version < 9 {
			code = coordinator.CodeIllegalGeneration
		}
		*committed[i] = int16(code)
	}
	return resp, nil
}

// offsetCommitted is what one partition of a request commits; a null metadata is an empty one.
func offsetCommitted(
	topic *metadata.Topic, partition int32, offset int64, leaderEpoch int32, note *string,
) group.OffsetCommit {
	o := group.OffsetCommit{
		Topic: topic.Name, TopicID: topic.ID, Partition: partition, Offset: offset,
		LeaderEpoch: leaderEpoch,
	}
	if note != nil {
		o.Metadata = *note
	}
	return o
}

// lookupTopic finds a topic given by name or, with byID, by id. missing is the code for a topic, or
// for partitions of it, that do not exist.
func lookupTopic(
	image *metadata.Image, name string, id [16]byte, byID bool,
) (topic *metadata.Topic, missing int16) {
	if byID {
		if topic, ok := image.TopicByID(uuid.UUID(id)); ok {
			return topic, kerr.UnknownTopicOrPartition.Code
		}
		return nil, kerr.UnknownTopicID.Code
	}
	topic, _ = image.Topic(name)
	return topic, kerr.UnknownTopicOrPartition.Code
}
