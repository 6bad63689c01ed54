package server

import (
	"unsafe"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
)

// adminClientID is the client id with which Kafka's own tools may write to internal topics.
const adminClientID = "__admin_client"

// partition finds the partition that this broker leads, by name or by id.
func (s *Server) partition(
	name []byte, id uuid.UUID, byID bool, index int32,
) (*replica.Partition, error) {
	return s.lookup(alias(name), id, byID, index)
}

// lookup is partition with the name as a string. It is not kept.
func (s *Server) lookup(
	name string, id uuid.UUID, byID bool, index int32,
) (*replica.Partition, error) {
	if byID {
		return s.opts.Replicas.PartitionByID(id, index)
	}
	return s.opts.Replicas.Partition(storage.TopicPartition{Topic: name, Partition: index})
}

// alias is b as a string, without a copy: for look-ups, which keep nothing.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// readLimit is the offset that a client may read up to.
func readLimit(p *replica.Partition, committed bool) int64 {
	if committed {
		return p.LastStableOffset()
	}
	return p.HighWatermark()
}

// image is the newest metadata; it is empty where there is no controller, as in tests of
// connections.
func (s *Server) image() *metadata.Image {
	if s.opts.Controller == nil {
		return metadata.NewImage(s.nodeID, nil)
	}
	return s.opts.Controller.Image()
}

// wantsLeader tells whether a client that gets code should look for another leader.
func wantsLeader(code int16) bool {
	return code == kerr.NotLeaderForPartition.Code || code == kerr.FencedLeaderEpoch.Code
}

// currentLeader tells who leads a partition, -1 and -1 when nobody knows: never a guess, since
// clients believe it (KIP-951).
func (s *Server) currentLeader(name string, id uuid.UUID, index int32) *protocol.CurrentLeader {
	unknown := &protocol.CurrentLeader{ID: -1, Epoch: -1}
	image := s.image()
	topic, ok := image.Topic(name)
	if name == "" {
		topic, ok = image.TopicByID(id)
	}
	if !ok || index < 0 || int(index) >= len(topic.Partitions) {
		return unknown
	}
	p := &topic.Partitions[index]
	return &protocol.CurrentLeader{ID: p.Leader, Epoch: p.LeaderEpoch}
}

// addEndpoint adds the address of a broker, once, for clients of a listener.
func (s *Server) addEndpoint(
	nodes []protocol.Endpoint, id int32, listener string,
) []protocol.Endpoint {
	for i := range nodes {
		if nodes[i].NodeID == id {
			return nodes
		}
	}
	b, ok := s.image().Broker(id)
	if !ok {
		return nodes
	}
	at := b.Endpoint(listener)
	return append(nodes, protocol.Endpoint{NodeID: b.ID, Host: at.Host, Port: at.Port})
}
