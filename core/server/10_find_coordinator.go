package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/txn"
)

// FindCoordinator (key 10), versions 0 to 6.
//
//   - Version 4 asks for several keys (KIP-699), each answered by itself.
//   - The first request for a group creates __consumer_offsets, the first for a transactional id
//     __transaction_state; until it is there the answer is COORDINATOR_NOT_AVAILABLE, which clients
//     retry.
//
// Known gap: share groups have no coordinator here yet: INVALID_REQUEST, which clients do not
// retry, and a message that says so.

// The types of coordinators.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2
)

func (s *Server) findCoordinator(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.FindCoordinatorRequest)
	resp := response[*kmsg.FindCoordinatorResponse](r)
	if r.version < 4 {
		c := s.coordinator(ctx, r.client, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		if c.ErrorCode == 0 {
			resp.ErrorMessage = pointer("NONE") // as Kafka says it
		}
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
		return resp, nil
	}
	for _, key := range req.CoordinatorKeys {
		c := s.coordinator(ctx, r.client, req.CoordinatorType, key)
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp, nil
}

// coordinator finds the coordinator of one key.
func (s *Server) coordinator(
	ctx context.Context, who *client, kind int8, key string,
) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port = key, -1, -1
	refuse := func(code int16, message string) kmsg.FindCoordinatorResponseCoordinator {
		c.ErrorCode, c.ErrorMessage = code, &message
		return c
	}
	var name string
	switch kind {
	case coordinatorGroup:
		name = group.TopicName
		if !s.may(who, metadata.ACLDescribe, metadata.ACLGroup, key) {
			return refuse(kerr.GroupAuthorizationFailed.Code, refusals[kerr.GroupAuthorizationFailed.Code])
		}
	case coordinatorTransaction:
		name = txn.TopicName
		if code := kerr.TransactionalIDAuthorizationFailed.Code; !s.may(
			who, metadata.ACLDescribe, metadata.ACLTransactionalID, key) {
			return refuse(code, refusals[code])
		}
	case coordinatorShare:
		return refuse(kerr.InvalidRequest.Code, "this broker does not support share groups yet")
	default:
		return refuse(kerr.InvalidRequest.Code, "unknown coordinator type")
	}
	topic, err := s.internalTopic(ctx, name)
	if err != nil {
		return refuse(kerr.CoordinatorNotAvailable.Code, err.Error())
	}
	// Only now: the number of partitions is known with the topic.
	n := s.opts.Transactions.PartitionFor(key)
	if kind == coordinatorGroup {
		n = s.opts.Groups.PartitionFor(key)
	}
	if int(n) >= len(topic.Partitions) {
		return refuse(kerr.CoordinatorNotAvailable.Code, name+" is being created")
	}
	broker, ok := s.image().Broker(topic.Partitions[n].Leader)
	if !ok {
		return refuse(kerr.CoordinatorNotAvailable.Code, name+" has no leader")
	}
	at := broker.Endpoint(who.listener)
	c.NodeID, c.Host, c.Port = broker.ID, at.Host, at.Port
	c.ErrorMessage = pointer("")
	return c
}

// internalTopic is the topic of a coordinator, created if it is not there.
func (s *Server) internalTopic(ctx context.Context, name string) (*metadata.Topic, error) {
	if topic, ok := s.image().Topic(name); ok {
		return topic, nil
	}
	if err := s.createInternalTopic(ctx, name); err != nil {
		return nil, err
	}
	topic, ok := s.image().Topic(name)
	if !ok {
		return nil, kerr.CoordinatorNotAvailable
	}
	return topic, nil
}
