package controller

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
)

// epochOfEntry in a BrokerRecord or FeatureRecord is replaced by the index of its entry.
const epochOfEntry = -1

// producerIDBlock is how many producer ids a broker gets at once, as in Kafka.
const producerIDBlock = 1000

// clusterIDText is the form of Kafka's cluster ids: 22 characters of URL-safe base64.
func clusterIDText(id uuid.UUID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// formCluster names a new cluster.
type formCluster struct{ ClusterID string }

type formReply struct {
	ClusterID string `json:"clusterId"` // in force
}

func (c *formCluster) handle(img *metadata.Image) ([]metadata.Record, any) {
	if id := img.ClusterID(); id != "" {
		return nil, formReply{id}
	}
	return []metadata.Record{&metadata.ClusterRecord{ClusterID: c.ClusterID}}, formReply{c.ClusterID}
}

// Registration is a broker that starts.
type Registration struct {
	Broker metadata.Broker // Epoch is ignored
	// Clean says that its logs were closed in order and have lost nothing since. Otherwise the
	// partitions it leads get a new leader epoch, by which readers find out what was lost.
	Clean bool
}

type registerReply struct {
	Error *storedError `json:"error,omitempty"`
}

// RegisterBroker takes a broker into the cluster, or renews its registration after a restart, and
// returns its epoch.
func (c *Controller) RegisterBroker(ctx context.Context, r Registration) (epoch int64, err error) {
	var reply registerReply
	if err := c.do(ctx, &registerBroker{r}, &reply); err != nil {
		return 0, err
	}
	if err := reply.Error.err(); err != nil {
		return 0, err
	}
	b, ok := c.Image().Broker(r.Broker.ID)
	if !ok {
		return 0, fmt.Errorf("broker %d: %w", r.Broker.ID, ErrOutcomeUnknown)
	}
	return b.Epoch, nil
}

type registerBroker struct{ Registration }

func (c *registerBroker) handle(img *metadata.Image) ([]metadata.Record, any) {
	b := c.Broker
	switch {
	case b.ID < 0:
		return nil, registerReply{storeError(refuse(ErrInvalidRequest, "%d is no id of a broker", b.ID))}
	case b.Host == "" || b.Port < 1 || b.Port > 65535:
		return nil, registerReply{storeError(refuse(ErrInvalidRequest,
			"broker %d has no address clients can use: host %q, port %d", b.ID, b.Host, b.Port))}
	}
	b.Epoch = epochOfEntry
	records := []metadata.Record{&metadata.BrokerRecord{Broker: b}}
	for t := range img.Topics() {
		for i, p := range t.Partitions {
			if next, changed := elect(p, b.ID, c.Clean); changed {
				records = append(records,
					&metadata.PartitionRecord{TopicID: t.ID, Index: int32(i), Partition: next})
			}
		}
	}
	return records, registerReply{}
}

// elect returns the partition after a broker has come back.
func elect(p metadata.Partition, broker int32, clean bool) (metadata.Partition, bool) {
	switch {
	case p.Leader == broker && !clean:
	case p.Leader == metadata.NoLeader && slices.Contains(p.ISR, broker):
		p.Leader = broker
	default:
		return p, false
	}
	p.LeaderEpoch++
	p.PartitionEpoch++
	return p, true
}

type producerIDsReply struct {
	First int64 `json:"first"`
}

// AllocateProducerIDs gives out a block of n producer ids from first on, never given out before.
func (c *Controller) AllocateProducerIDs(ctx context.Context) (first int64, n int32, err error) {
	var reply producerIDsReply
	if err := c.do(ctx, &allocateProducerIDs{}, &reply); err != nil {
		return 0, 0, err
	}
	return reply.First, producerIDBlock, nil
}

type allocateProducerIDs struct{}

func (*allocateProducerIDs) handle(img *metadata.Image) ([]metadata.Record, any) {
	first := img.NextProducerID()
	next := &metadata.ProducerIDsRecord{Next: first + producerIDBlock}
	return []metadata.Record{next}, producerIDsReply{first}
}
