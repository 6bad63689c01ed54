package server

import (
	"context"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
)

// DeleteTopics (key 20), versions 1 to 6.
//
//   - By name, or from version 6 by name or id (KIP-516).
//   - delete.topic.enable=false refuses.

func (s *Server) deleteTopics(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DeleteTopicsRequest)
	resp := response[*kmsg.DeleteTopicsResponse](r)
	var refs []controller.TopicRef
	for i := range req.TopicNames {
		refs = append(refs, controller.TopicRef{Name: req.TopicNames[i]})
	}
	for i := range req.Topics {
		ref := controller.TopicRef{ID: uuid.UUID(req.Topics[i].TopicID)}
		if req.Topics[i].Topic != nil {
			ref.Name = *req.Topics[i].Topic
		}
		refs = append(refs, ref)
	}
	ctx, cancel := requestTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	results, err := s.opts.Controller.DeleteTopics(ctx, refs)
	for i, ref := range refs {
		out := kmsg.NewDeleteTopicsResponseTopic()
		if ref.Name != "" || r.version < 6 {
			out.Topic = &refs[i].Name
		}
		out.TopicID = [16]byte(ref.ID)
		failure := err
		if failure == nil {
			failure = results[i].Err
		}
		if failure != nil {
			setError(&out.ErrorCode, &out.ErrorMessage, failure)
		} else {
			out.Topic, out.TopicID = &results[i].Name, [16]byte(results[i].ID)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
