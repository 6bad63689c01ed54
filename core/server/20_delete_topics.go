package server

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
)

// DeleteTopics (key 20), versions 1 to 6.
//
//   - By name, or from version 6 by name or id (KIP-516).
//   - delete.topic.enable=false refuses.
//   - Over the quota of changes, THROTTLING_QUOTA_EXCEEDED from version 5 on (KIP-599).
//   - A topic named twice, by name or id, stays, and is INVALID_REQUEST both times.

func (s *Server) deleteTopics(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DeleteTopicsRequest)
	resp := response[*kmsg.DeleteTopicsResponse](r)
	var refs []controller.TopicRef
	for i := range req.TopicNames {
		refs = append(refs, controller.TopicRef{Name: req.TopicNames[i]})
	}
	refused := make([]error, len(req.TopicNames)+len(req.Topics)) // these do not reach the controller
	for i := range req.Topics {
		ref := controller.TopicRef{ID: uuid.UUID(req.Topics[i].TopicID)}
		if req.Topics[i].Topic != nil {
			ref.Name = *req.Topics[i].Topic
		} else if ref.ID == uuid.Nil {
			refused[len(req.TopicNames)+i] = fmt.Errorf("neither name nor id: %w",
				controller.ErrInvalidRequest)
		}
		refs = append(refs, ref)
	}
	var asked []controller.TopicRef
	for i, ref := range refs {
		if refused[i] == nil && ref == (controller.TopicRef{}) {
			refused[i] = fmt.Errorf("%w: the name is empty", controller.ErrUnknownTopic)
		}
		if refused[i] == nil {
			refused[i] = s.mutateGone(r, ref)
		}
		if refused[i] == nil {
			asked = append(asked, ref)
		}
	}
	ctx, cancel := requestTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	results, err := s.opts.Controller.DeleteTopics(ctx, asked)
	for i, ref := range refs {
		out := kmsg.NewDeleteTopicsResponseTopic()
		if ref.Name != "" || r.version < 6 || i < len(req.TopicNames) ||
			req.Topics[i-len(req.TopicNames)].Topic != nil {
			out.Topic = &refs[i].Name
		}
		out.TopicID = [16]byte(ref.ID)
		failure := firstError(refused[i], err)
		if failure == nil {
			failure = results[0].Err
		}
		if failure != nil {
			setError(&out.ErrorCode, &out.ErrorMessage, failure)
		} else {
			out.Topic, out.TopicID = &results[0].Name, [16]byte(results[0].ID)
		}
		if refused[i] == nil && err == nil {
			results = results[1:]
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
