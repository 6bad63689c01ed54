package server

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

// WriteTxnMarkers (key 27), versions 1 and 2.
//
//   - For other brokers' coordinators, and for operators that end a transaction which no
//     coordinator knows any more (kafka-transactions abort).
//   - Answered when all markers are durable; each partition has its own code.

func (s *Server) writeTxnMarkers(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.WriteTxnMarkersRequest)
	resp := response[*kmsg.WriteTxnMarkersResponse](r)
	var writing sync.WaitGroup
	free := make(chan struct{}, maxMarkersAtOnce)
	for i := range req.Markers {
		in := &req.Markers[i]
		m := record.ControlOptions{
			Type: record.ControlAbort, ProducerID: in.ProducerID, ProducerEpoch: in.ProducerEpoch,
			CoordinatorEpoch: in.CoordinatorEpoch, Timestamp: time.Now().UnixMilli(),
		}
		if in.Committed {
			m.Type = record.ControlCommit
		}
		out := kmsg.NewWriteTxnMarkersResponseMarker()
		out.ProducerID = in.ProducerID
		out.Topics = make([]kmsg.WriteTxnMarkersResponseMarkerTopic, len(in.Topics))
		for j, topic := range in.Topics {
			out.Topics[j] = kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			out.Topics[j].Topic = topic.Topic
			partitions := make(
				[]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(topic.Partitions))
			for k, n := range topic.Partitions {
				partitions[k] = kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				partitions[k].Partition = n
				free <- struct{}{}
				writing.Go(func() {
					partitions[k].ErrorCode = s.writeMarker(
						ctx, topic.Topic, n, m, int16(in.TransactionVersion))
					<-free
				})
			}
			out.Topics[j].Partitions = partitions
		}
		resp.Markers = append(resp.Markers, out)
	}
	writing.Wait()
	return resp, nil
}

// maxMarkersAtOnce bounds the markers of one request that are written side by side.
const maxMarkersAtOnce = 64

// writeMarker writes one marker; partitions that are not here are the caller's mistake.
func (s *Server) writeMarker(
	ctx context.Context, topic string, n int32, m record.ControlOptions, version int16,
) int16 {
	t, unknown := lookupTopic(s.image(), topic, [16]byte{}, false)
	if t == nil || n < 0 || int(n) >= len(t.Partitions) {
		return unknown
	}
	return int16(s.opts.Markers.WriteMarker(ctx, topic, n, m, version))
}
