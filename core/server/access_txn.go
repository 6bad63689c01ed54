package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// guardInitProducerID asks for WRITE on the transactional id, without one for IDEMPOTENT_WRITE on
// the cluster or WRITE on any topic.
func guardInitProducerID(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.InitProducerIDRequest)
	code := int16(0)
	switch {
	case req.TransactionalID != nil:
		if !s.mayTxn(r, write, *req.TransactionalID) {
			code = codeTxn
		}
	case !s.mayAny(r.client, write, metadata.ACLTopic) && !s.mayCluster(r.client, idempotent):
		code = codeCluster
	}
	if code != 0 {
		resp := refuseAll(r, code).(*kmsg.InitProducerIDResponse)
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		return resp, nil
	}
	return next(s, ctx, r)
}

// guardAddPartitions: a topic that is refused keeps the others from being added. Versions 4 and 5
// are of brokers.
func guardAddPartitions(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.AddPartitionsToTxnRequest)
	if r.version >= 4 {
		if !s.mayCluster(r.client, action) {
			return refuseAll(r, codeCluster), nil
		}
		return next(s, ctx, r)
	}
	mayTxn, mayTopics := s.mayTxn(r, write, req.TransactionalID), true
	codes := make([]int16, len(req.Topics))
	for i := range req.Topics {
		switch {
		case !mayTxn:
			codes[i] = codeTxn
		case !s.mayTopic(r, write, req.Topics[i].Topic):
			codes[i], mayTopics = codeTopic, false
		default:
			codes[i] = kerr.OperationNotAttempted.Code
		}
	}
	if mayTxn && mayTopics {
		return next(s, ctx, r)
	}
	resp := response[*kmsg.AddPartitionsToTxnResponse](r)
	for i := range req.Topics {
		t := kmsg.NewAddPartitionsToTxnResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, index := range req.Topics[i].Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			p.Partition, p.ErrorCode = index, codes[i]
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func guardAddOffsets(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.AddOffsetsToTxnRequest)
	switch {
	case !s.mayTxn(r, write, req.TransactionalID):
		return refuseAll(r, codeTxn), nil
	case !s.mayGroup(r, read, req.Group):
		return refuseAll(r, codeGroup), nil
	}
	return next(s, ctx, r)
}

func guardEndTxn(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if !s.mayTxn(r, write, r.message.(*kmsg.EndTxnRequest).TransactionalID) {
		resp := refuseAll(r, codeTxn).(*kmsg.EndTxnResponse)
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		return resp, nil
	}
	return next(s, ctx, r)
}

// guardMarkers lets brokers write markers, and operators end a transaction that nobody knows.
func guardMarkers(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	if s.seesCluster(r.client, action) || s.mayCluster(r.client, alter) {
		return next(s, ctx, r)
	}
	req := r.message.(*kmsg.WriteTxnMarkersRequest)
	resp := response[*kmsg.WriteTxnMarkersResponse](r)
	for i := range req.Markers {
		out := kmsg.NewWriteTxnMarkersResponseMarker()
		out.ProducerID = req.Markers[i].ProducerID
		for _, in := range req.Markers[i].Topics {
			t := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			t.Topic = in.Topic
			for _, index := range in.Partitions {
				p := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				p.Partition, p.ErrorCode = index, codeCluster
				t.Partitions = append(t.Partitions, p)
			}
			out.Topics = append(out.Topics, t)
		}
		resp.Markers = append(resp.Markers, out)
	}
	return resp, nil
}

func guardTxnCommit(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.TxnOffsetCommitRequest)
	code := int16(0)
	switch {
	case !s.mayTxn(r, write, req.TransactionalID):
		code = codeTxn
	case !s.mayGroup(r, read, req.Group):
		code = codeGroup
	}
	refused := split(&req.Topics, func(t *kmsg.TxnOffsetCommitRequestTopic) bool {
		return code == 0 && s.mayTopic(r, read, t.Topic)
	})
	answer := kmsg.Response(r.message.ResponseKind())
	if code == 0 {
		var err error
		if answer, err = next(s, ctx, r); err != nil {
			return nil, err
		}
		code = codeTopic
	}
	resp := answer.(*kmsg.TxnOffsetCommitResponse)
	for i := range refused {
		t := kmsg.NewTxnOffsetCommitResponseTopic()
		t.Topic = refused[i].Topic
		for j := range refused[i].Partitions {
			p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = refused[i].Partitions[j].Partition, code
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// guardDescribeTxns leaves out the topics of a transaction that the client may not see.
func guardDescribeTxns(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeTransactionsRequest)
	refused := split(&req.TransactionalIDs, func(id *string) bool {
		return s.mayTxn(r, describe, *id)
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.DescribeTransactionsResponse)
	for i := range resp.TransactionStates {
		split(&resp.TransactionStates[i].Topics,
			func(t *kmsg.DescribeTransactionsResponseTransactionStateTopic) bool {
				return s.seesTopic(r, describe, t.Topic)
			})
	}
	for _, id := range refused {
		out := kmsg.NewDescribeTransactionsResponseTransactionState()
		out.TransactionalID, out.ErrorCode = id, codeTxn
		resp.TransactionStates = append(resp.TransactionStates, out)
	}
	return resp, nil
}

func guardListTxns(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.ListTransactionsResponse)
	split(&resp.TransactionStates, func(t *kmsg.ListTransactionsResponseTransactionState) bool {
		return s.sees(r.client, describe, metadata.ACLTransactionalID, t.TransactionalID)
	})
	return resp, nil
}
