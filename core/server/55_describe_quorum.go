package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeQuorum (key 55), versions 0 to 2 (KIP-595, KIP-836, KIP-853).
//
//   - The one partition of __cluster_metadata, kept on this node: its voter and leader. Offsets are
//     indexes of the metadata log. There are no observers.

// metadataTopic is what Kafka calls the metadata log.
const metadataTopic = "__cluster_metadata"

func (s *Server) describeQuorum(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeQuorumRequest)
	resp := response[*kmsg.DescribeQuorumResponse](r)
	image := s.image()
	for i := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			out := kmsg.NewDescribeQuorumResponseTopicPartition()
			out.Partition = req.Topics[i].Partitions[j].Partition
			if topic.Topic != metadataTopic || out.Partition != 0 {
				message := "only partition 0 of " + metadataTopic + " has a quorum"
				out.ErrorCode = kerr.UnknownTopicOrPartition.Code
				out.ErrorMessage = &message
				topic.Partitions = append(topic.Partitions, out)
				continue
			}
			out.LeaderID, out.LeaderEpoch = s.nodeID, int32(s.opts.Controller.Term())
			out.HighWatermark = image.Version()
			voter := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
			now := time.Now().UnixMilli()
			voter.ReplicaID, voter.LogEndOffset = s.nodeID, image.Version()
			voter.LastFetchTimestamp, voter.LastCaughtUpTimestamp = now, now
			if b, ok := image.Broker(s.nodeID); ok {
				voter.ReplicaDirectoryID = [16]byte(b.DirectoryID)
			}
			out.CurrentVoters = append(out.CurrentVoters, voter)
			topic.Partitions = append(topic.Partitions, out)
			resp.Nodes = s.quorumNodes(r.client)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// quorumNodes returns the voters with their addresses. The controllers have no listener of their
// own, so the broker's stands in.
func (s *Server) quorumNodes(c *client) []kmsg.DescribeQuorumResponseNode {
	b, ok := s.image().Broker(s.nodeID)
	if !ok {
		return nil
	}
	node := kmsg.NewDescribeQuorumResponseNode()
	node.NodeID = b.ID
	l := kmsg.NewDescribeQuorumResponseNodeListener()
	at := b.Endpoint(c.listener)
	l.Name, l.Host, l.Port = at.Listener, at.Host, uint16(at.Port)
	node.Listeners = append(node.Listeners, l)
	return []kmsg.DescribeQuorumResponseNode{node}
}
