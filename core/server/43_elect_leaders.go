package server

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
)

// ElectLeaders (key 43), versions 0 to 2.
//
//   - Preferred (0) and unclean (1) elections (version 1, KIP-460). A partition that has its leader
//     is ELECTION_NOT_NEEDED.
//   - Topics null is all partitions, of which only those are answered whose leader changed.

func (s *Server) electLeaders(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.ElectLeadersRequest)
	resp := response[*kmsg.ElectLeadersResponse](r)
	topics := req.Topics
	if topics == nil {
		for t := range s.image().Topics() {
			all := kmsg.NewElectLeadersRequestTopic()
			all.Topic = t.Name
			for i := range t.Partitions {
				all.Partitions = append(all.Partitions, int32(i))
			}
			topics = append(topics, all)
		}
	}
	var refs []controller.PartitionRef
	for i := range topics {
		for _, p := range topics[i].Partitions {
			refs = append(refs, controller.PartitionRef{Topic: topics[i].Topic, Partition: p})
		}
	}
	errs := s.elect(ctx, req, refs)
	for i := range topics {
		topic := kmsg.NewElectLeadersResponseTopic()
		topic.Topic = topics[i].Topic
		for _, index := range topics[i].Partitions {
			out := kmsg.NewElectLeadersResponseTopicPartition()
			out.Partition = index
			setError(&out.ErrorCode, &out.ErrorMessage, errs[0])
			errs = errs[1:]
			if req.Topics != nil || out.ErrorCode == 0 {
				topic.Partitions = append(topic.Partitions, out)
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if req.ElectionType < 0 || req.ElectionType > 1 {
		resp.ErrorCode = errorCode(controller.ErrInvalidRequest)
	}
	return resp, nil
}

// elect returns one error, or nil, for each partition.
func (s *Server) elect(
	ctx context.Context, req *kmsg.ElectLeadersRequest, refs []controller.PartitionRef,
) []error {
	ctx, cancel := requestTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	var errs []error
	var err error
	if req.ElectionType < 0 || req.ElectionType > 1 {
		err = fmt.Errorf("%w: there is no election type %d", controller.ErrInvalidRequest,
			req.ElectionType)
	} else {
		errs, err = s.opts.Controller.ElectLeaders(ctx, refs, req.ElectionType == 1)
	}
	if err != nil {
		errs = make([]error, len(refs))
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}
