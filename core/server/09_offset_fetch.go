package server

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
)

// OffsetFetch (key 9), versions 1 to 10.
//
//   - What is not committed is offset -1, leader epoch -1 and no error; topics or groups that do
//     not exist are no exception.
//   - Null topics (version 2) are all that the group has committed, none are none.
//   - Version 8 asks for several groups (KIP-709), 9 may name a member of a KIP-848 group, whose
//     epoch is checked (STALE_MEMBER_EPOCH), 10 names topics by id.
//   - An offset that was committed for a topic of another id, since deleted, is none.
//   - require_stable (version 7, KIP-447): an offset that an open transaction commits is
//     UNSTABLE_OFFSET_COMMIT, in its partition, until the transaction is decided.

func (s *Server) offsetFetch(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetFetchRequest)
	resp := response[*kmsg.OffsetFetchResponse](r)
	if r.version < 8 {
		s.fetchOneGroup(ctx, r.version, req, resp)
		return resp, nil
	}
	image := s.image()
	for i := range req.Groups {
		resp.Groups = append(resp.Groups, s.fetchGroup(ctx, image, r, &req.Groups[i]))
	}
	return resp, nil
}

// fetchOneGroup answers versions 1 to 7.
func (s *Server) fetchOneGroup(
	ctx context.Context, version int16, req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse,
) {
	fetch := group.FetchRequest{
		GroupID: req.Group, All: req.Topics == nil && version >= 2, RequireStable: req.RequireStable,
		MemberEpoch: -1,
	}
	for i := range req.Topics {
		fetch.Topics = append(fetch.Topics, group.TopicPartitions{
			Topic: req.Topics[i].Topic, Partitions: req.Topics[i].Partitions,
		})
	}
	fetched := s.fetchOffsets(ctx, s.image(), fetch)
	resp.ErrorCode = int16(fetched.Code)
	if fetched.Code != noError && version < 2 {
		fetched.Topics = unfetched(fetch.Topics) // version 1 has only partitions to put it in
	}
	for i := range fetched.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = fetched.Topics[i].Topic
		for _, p := range fetched.Topics[i].Partitions {
			out := kmsg.NewOffsetFetchResponseTopicPartition()
			out.Partition, out.Offset, out.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			out.Metadata = pointer(p.Metadata)
			out.ErrorCode = int16(cmp.Or(fetched.Code, p.Code))
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}

// fetchOffsets asks the group, and leaves out offsets of topics that were deleted and whose name
// another topic has now.
func (s *Server) fetchOffsets(
	ctx context.Context, image *metadata.Image, fetch group.FetchRequest,
) group.FetchResponse {
	resp := s.opts.Groups.FetchOffsets(ctx, fetch)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		topic, ok := image.Topic(t.Topic)
		stale := func(p group.FetchedOffset) bool {
			return ok && p.TopicID != [16]byte{} && p.TopicID != topic.ID
		}
		if fetch.All {
			t.Partitions = slices.DeleteFunc(t.Partitions, stale)
			continue
		}
		for j := range t.Partitions {
			if p := &t.Partitions[j]; stale(*p) {
				*p = group.FetchedOffset{
					Partition: p.Partition, Offset: noOffset, LeaderEpoch: noLeaderEpoch,
				}
			}
		}
	}
	if fetch.All {
		resp.Topics = slices.DeleteFunc(resp.Topics, func(t group.FetchedTopic) bool {
			return len(t.Partitions) == 0
		})
	}
	return resp
}

// unfetched is an answer that has no offset for any partition.
func unfetched(topics []group.TopicPartitions) []group.FetchedTopic {
	var list []group.FetchedTopic
	for _, t := range topics {
		ft := group.FetchedTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			none := group.FetchedOffset{Partition: p, Offset: noOffset, LeaderEpoch: noLeaderEpoch}
			ft.Partitions = append(ft.Partitions, none)
		}
		list = append(list, ft)
	}
	return list
}

// fetchGroup answers for one group in versions 8 and later.
func (s *Server) fetchGroup(
	ctx context.Context, image *metadata.Image, r *request, in *kmsg.OffsetFetchRequestGroup,
) kmsg.OffsetFetchResponseGroup {
	byID := r.version >= 10
	fetch := group.FetchRequest{
		GroupID: in.Group, All: in.Topics == nil, MemberEpoch: -1,
		RequireStable: r.message.(*kmsg.OffsetFetchRequest).RequireStable,
	}
	if r.version >= 9 {
		fetch.MemberID, fetch.MemberEpoch = in.MemberID, in.MemberEpoch
	}
	known := make([]bool, len(in.Topics))
	for i := range in.Topics {
		t := &in.Topics[i]
		name := t.Topic
		known[i] = true
		if byID {
			topic, ok := image.TopicByID(uuid.UUID(t.TopicID))
			if known[i] = ok; ok {
				name = topic.Name
			}
		}
		if known[i] {
			fetch.Topics = append(fetch.Topics,
				group.TopicPartitions{Topic: name, Partitions: t.Partitions})
		}
	}
	fetched := s.fetchOffsets(ctx, image, fetch)
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group, out.ErrorCode = in.Group, int16(fetched.Code)
	if fetched.Code != noError {
		return out
	}
	if fetch.All {
		for i := range fetched.Topics {
			topic, ok := image.Topic(fetched.Topics[i].Topic)
			if byID && !ok {
				continue // gone: it has no id that could be answered
			}
			answer := fetchedTopic(&fetched.Topics[i])
			if ok {
				answer.TopicID = [16]byte(topic.ID)
			}
			out.Topics = append(out.Topics, answer)
		}
		return out
	}
	next := 0
	for i := range in.Topics {
		if !known[i] {
			out.Topics = append(out.Topics, unknownFetch(&in.Topics[i]))
			continue
		}
		answer := fetchedTopic(&fetched.Topics[next])
		answer.TopicID = in.Topics[i].TopicID
		out.Topics = append(out.Topics, answer)
		next++
	}
	return out
}

func fetchedTopic(in *group.FetchedTopic) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.NewOffsetFetchResponseGroupTopic()
	out.Topic = in.Topic
	for _, p := range in.Partitions {
		part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
		part.Metadata = pointer(p.Metadata)
		part.ErrorCode = int16(p.Code)
		out.Partitions = append(out.Partitions, part)
	}
	return out
}

// unknownFetch answers for a topic id that does not exist.
func unknownFetch(in *kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.NewOffsetFetchResponseGroupTopic()
	out.TopicID = in.TopicID
	for _, p := range in.Partitions {
		part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = p, noOffset, noLeaderEpoch
		part.Metadata = pointer("")
		part.ErrorCode = kerr.UnknownTopicID.Code
		out.Partitions = append(out.Partitions, part)
	}
	return out
}
