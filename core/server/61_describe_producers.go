package server

import (
	"context"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeProducers (key 61), version 0 (KIP-664).
//
//   - Every producer whose state a partition keeps, also those that only write idempotently and
//     those that have no open transaction.

func (s *Server) describeProducers(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeProducersRequest)
	resp := response[*kmsg.DescribeProducersResponse](r)
	for i := range req.Topics {
		in := &req.Topics[i]
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = in.Topic
		for _, index := range in.Partitions {
			topic.Partitions = append(topic.Partitions, s.describedProducers(in.Topic, index))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

func (s *Server) describedProducers(
	topic string, index int32,
) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = index
	p, err := s.lookup(topic, uuid.Nil, false, index)
	if err != nil {
		setError(&out.ErrorCode, &out.ErrorMessage, err)
		return out
	}
	for _, producer := range p.Producers() {
		active := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		active.ProducerID, active.ProducerEpoch = producer.ID, int32(producer.Epoch)
		active.LastSequence, active.LastTimestamp = producer.LastSequence, producer.LastTimestamp
		active.CoordinatorEpoch = producer.CoordinatorEpoch
		active.CurrentTxnStartOffset = producer.TxnStartOffset
		out.ActiveProducers = append(out.ActiveProducers, active)
	}
	return out
}
