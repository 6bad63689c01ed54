package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
)

// CreatePartitions (key 37), versions 0 to 3.
//
//   - Count is the new total; fewer than now, or as many, is INVALID_PARTITIONS.
//   - Over the quota of changes, THROTTLING_QUOTA_EXCEEDED from version 3 on (KIP-599).
//   - Assignment null is automatic; an empty one is an error, since it assigns nothing.

func (s *Server) createPartitions(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.CreatePartitionsRequest)
	resp := response[*kmsg.CreatePartitionsResponse](r)
	wanted := make([]controller.NewPartitions, 0, len(req.Topics))
	refused, mutations := make([]error, len(req.Topics)), make([]int, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		w := controller.NewPartitions{Topic: t.Topic, Count: t.Count}
		if t.Assignment != nil {
			w.Assignment = [][]int32{}
			for j := range t.Assignment {
				w.Assignment = append(w.Assignment, t.Assignment[j].Replicas)
			}
		}
		if mutations[i], refused[i] = s.mutateMore(r, t.Topic, int(t.Count)); refused[i] == nil {
			wanted = append(wanted, w)
		}
	}
	ctx, cancel := requestTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	results, err := s.opts.Controller.CreatePartitions(ctx, wanted, req.ValidateOnly)
	for i := range req.Topics {
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = req.Topics[i].Topic
		failure := firstError(refused[i], err)
		if failure == nil {
			failure, results = results[0].Err, results[1:]
		}
		if failure != nil {
			s.unmutate(r, mutations[i])
		}
		setError(&out.ErrorCode, &out.ErrorMessage, failure)
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
