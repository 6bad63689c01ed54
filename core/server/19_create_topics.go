package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
)

// CreateTopics (key 19), versions 2 to 7.
//
//   - -1 partitions or replicas are the defaults of the broker (version 4, KIP-464).
//   - Answered once the partitions are served, so that a client can write at once; Kafka answers
//     earlier and clients then see NOT_LEADER_OR_FOLLOWER.
//   - Settings in force are returned (version 5), and the topic id (7).
//   - A topic named twice in a request is INVALID_REQUEST, once.
//   - Over the quota of changes, THROTTLING_QUOTA_EXCEEDED from version 6 on (KIP-599).

func (s *Server) createTopics(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.CreateTopicsRequest)
	resp := response[*kmsg.CreateTopicsResponse](r)
	wanted := make([]controller.CreateTopic, 0, len(req.Topics))
	refused := make([]error, len(req.Topics)) // by the server: these do not reach the controller
	mutations := make([]int, len(req.Topics))
	for i := range req.Topics {
		var topic controller.CreateTopic
		topic, refused[i] = wantedTopic(&req.Topics[i])
		if refused[i] == nil {
			mutations[i], refused[i] = s.mutateNew(r, 6, &topic)
		}
		if refused[i] == nil {
			wanted = append(wanted, topic)
		}
	}
	ctx, cancel := requestTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	results, err := s.opts.Controller.CreateTopics(ctx, wanted, req.ValidateOnly)
	image := s.image()
	answered := make(map[string]bool, len(req.Topics))
	for i := range req.Topics {
		again := answered[req.Topics[i].Topic]
		answered[req.Topics[i].Topic] = true
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = req.Topics[i].Topic
		out.NumPartitions, out.ReplicationFactor = -1, -1
		if failure := firstError(refused[i], err); failure != nil {
			setError(&out.ErrorCode, &out.ErrorMessage, failure)
			s.unmutate(r, mutations[i])
		} else {
			if setError(&out.ErrorCode, &out.ErrorMessage, results[0].Err); out.ErrorCode == 0 {
				addCreated(&out, image, &results[0])
			} else {
				s.unmutate(r, mutations[i])
			}
			results = results[1:]
		}
		if !again {
			resp.Topics = append(resp.Topics, out)
		}
	}
	return resp, nil
}

// wantedTopic turns a topic of the request into what the controller takes.
func wantedTopic(t *kmsg.CreateTopicsRequestTopic) (controller.CreateTopic, error) {
	w := controller.CreateTopic{
		Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor,
	}
	if len(t.ReplicaAssignment) > 0 {
		w.Assignment = make(map[int32][]int32, len(t.ReplicaAssignment))
		for i := range t.ReplicaAssignment {
			w.Assignment[t.ReplicaAssignment[i].Partition] = t.ReplicaAssignment[i].Replicas
		}
		if len(w.Assignment) < len(t.ReplicaAssignment) {
			return w, fmt.Errorf("a partition is assigned twice: %w",
				controller.ErrInvalidAssignment)
		}
	}
	for i := range t.Configs {
		name, value := t.Configs[i].Name, t.Configs[i].Value
		if value == nil {
			return w, fmt.Errorf("%s has no value: %w", name, controller.ErrInvalidConfig)
		}
		if w.Configs == nil {
			w.Configs = make(map[string]string, len(t.Configs))
		}
		w.Configs[name] = *value
	}
	return w, nil
}

// addCreated answers for a topic that was created, or would be.
func addCreated(
	out *kmsg.CreateTopicsResponseTopic, image *metadata.Image, t *controller.TopicResult,
) {
	out.TopicID = [16]byte(t.ID)
	out.NumPartitions, out.ReplicationFactor = t.Partitions, t.ReplicationFactor
	values := image.DefaultTopicConfigs(t.Configs)
	for i := range values {
		v := &values[i]
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.ReadOnly, c.IsSensitive = v.Def.Name, v.Def.ReadOnly, v.Def.Sensitive
		c.Source = int8(v.Source)
		if !v.Null && !v.Def.Sensitive {
			c.Value = &v.Value
		}
		out.Configs = append(out.Configs, c)
	}
}

// createDefaultTopics creates topics with all defaults, as Metadata does for unknown names.
func (s *Server) createDefaultTopics(ctx context.Context, r *request, names []string) {
	wanted := make([]controller.CreateTopic, 0, len(names))
	for _, name := range names {
		topic := controller.CreateTopic{Name: name, Partitions: -1, ReplicationFactor: -1}
		if _, err := s.mutateNew(r, 0, &topic); err == nil { // else the client asks again
			wanted = append(wanted, topic)
		}
	}
	results, err := s.opts.Controller.CreateTopics(ctx, wanted, false)
	if err != nil {
		s.log.Warn("cannot create topics on first use", "topics", names, "error", err.Error())
	}
	for i := range results {
		if err := results[i].Err; err != nil && !errors.Is(err, controller.ErrTopicExists) {
			s.log.Warn("cannot create a topic on first use", "topic", wanted[i].Name,
				"error", err.Error())
		}
	}
}

// createInternalTopic creates one of the topics in which the broker keeps its own state, with the
// settings that such a topic has. It is no error if it exists.
func (s *Server) createInternalTopic(ctx context.Context, name string) error {
	wanted := []controller.CreateTopic{{Name: name, Partitions: -1, ReplicationFactor: -1}}
	results, err := s.opts.Controller.CreateTopics(ctx, wanted, false)
	if err == nil {
		err = results[0].Err
	}
	if err != nil && !errors.Is(err, controller.ErrTopicExists) {
		return fmt.Errorf("create internal topic %s: %w", name, err)
	}
	return nil
}

// brokerFlag returns a boolean setting of this broker.
func (s *Server) brokerFlag(name string) bool {
	return s.image().BrokerConfigValue(name) == "true"
}
