package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/core/metadata"
)

// FeatureUpdate moves a feature to a level.
type FeatureUpdate struct {
	Name  string
	Level metadata.FeatureLevel // 0 switches it off
	// Downgrade allows a lower level than the present one.
	Downgrade bool
}

// UpdateFeatures changes the levels of features, all or none. The error is nil or an *Error of kind
// ErrInvalidUpdateVersion or ErrInvalidRequest. With validateOnly nothing changes.
func (c *Controller) UpdateFeatures(
	ctx context.Context, updates []FeatureUpdate, validateOnly bool,
) error {
	var reply *storedError
	if err := c.do(ctx, &updateFeatures{updates, validateOnly, c.opts.NodeID}, &reply); err != nil {
		return err
	}
	return reply.err()
}

type updateFeatures struct {
	updates      []FeatureUpdate
	validateOnly bool
	self         int32 // the node that leads, for messages
}

func (c *updateFeatures) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	for i, u := range c.updates {
		refused := checkFeature(img, u, c.self)
		if slices.ContainsFunc(c.updates[:i], func(o FeatureUpdate) bool { return o.Name == u.Name }) {
			refused = refuse(ErrInvalidRequest, "feature %q is in the request more than once", u.Name)
		}
		if refused != nil {
			return nil, storeError(refused)
		}
		if u.Level != img.FeatureLevel(u.Name) {
			records = append(records,
				&metadata.FeatureRecord{Name: u.Name, Level: u.Level, Epoch: epochOfEntry})
		}
	}
	if c.validateOnly {
		records = nil
	}
	return records, (*storedError)(nil)
}

// badFeature refuses all updates of a request because of one, in Kafka's words.
func badFeature(u FeatureUpdate, format string, args ...any) *Error {
	return refuse(ErrInvalidUpdateVersion, "The update failed for all features since the following "+
		"feature had an error: Invalid update version %d for feature %s. %s", u.Level, u.Name,
		fmt.Sprintf(format, args...))
}

func checkFeature(img *metadata.Image, u FeatureUpdate, self int32) *Error {
	def, ok := metadata.LookupFeature(u.Name)
	switch now := img.FeatureLevel(u.Name); {
	case u.Level < 0:
		return badFeature(u, "A feature version cannot be less than 0.")
	case !ok:
		return badFeature(u,
			"Local controller %d does not support this feature.", self)
	case u.Level < def.Min || u.Level > def.Max:
		return badFeature(u, "Local controller %d only supports versions %d-%d", self, def.Min,
			def.Max)
	case u.Level < now && !u.Downgrade:
		return badFeature(u, "Can't downgrade the version of this feature without setting the "+
			"upgrade type to either safe or unsafe downgrade.")
	}
	return nil
}

// UnregisterBroker takes a broker that is gone out of the cluster. This node itself stays: without
// its registration nobody could reach it. The error is nil or an *Error.
func (c *Controller) UnregisterBroker(ctx context.Context, id int32) error {
	var reply *storedError
	if err := c.do(ctx, &unregisterBroker{id, c.opts.NodeID}, &reply); err != nil {
		return err
	}
	return reply.err()
}

type unregisterBroker struct{ id, self int32 }

func (c *unregisterBroker) handle(img *metadata.Image) ([]metadata.Record, any) {
	if _, ok := img.Broker(c.id); !ok {
		return nil, storeError(refuse(ErrUnknownBroker, "Broker ID %d is not currently registered", c.id))
	}
	if c.id == c.self {
		return nil, storeError(refuse(ErrInvalidRequest, "broker %d is alive", c.id))
	}
	return []metadata.Record{&metadata.BrokerRemovedRecord{ID: c.id}}, (*storedError)(nil)
}

// PartitionRef names a partition.
type PartitionRef struct {
	Topic     string
	Partition int32
}

func (r PartitionRef) find(img *metadata.Image) (*metadata.Topic, *metadata.Partition, *Error) {
	t, ok := img.Topic(r.Topic)
	if !ok || r.Partition < 0 || int(r.Partition) >= len(t.Partitions) {
		return nil, nil, refuse(ErrUnknownTopic, "topic %q has no partition %d", r.Topic, r.Partition)
	}
	return t, &t.Partitions[r.Partition], nil
}

// ElectLeaders makes the preferred replicas the leaders of partitions, or, where unclean, any
// replica of a partition without one. The errors are in the order of the partitions;
// ErrElectionNotNeeded is one.
func (c *Controller) ElectLeaders(
	ctx context.Context, partitions []PartitionRef, unclean bool,
) ([]error, error) {
	var replies []*storedError
	if err := c.do(ctx, &electLeaders{partitions, unclean}, &replies); err != nil {
		return nil, err
	}
	return storedErrors(replies), nil
}

func storedErrors(replies []*storedError) []error {
	errs := make([]error, len(replies))
	for i, r := range replies {
		errs[i] = r.err()
	}
	return errs
}

type electLeaders struct {
	partitions []PartitionRef
	unclean    bool
}

func (c *electLeaders) handle(img *metadata.Image) ([]metadata.Record, any) {
	var records []metadata.Record
	replies := make([]*storedError, len(c.partitions))
	for i, ref := range c.partitions {
		t, p, refused := ref.find(img)
		if refused == nil && slices.Contains(c.partitions[:i], ref) {
			refused = refuse(ErrElectionNotNeeded, "%s-%d is asked for before", ref.Topic, ref.Partition)
		}
		if refused != nil {
			replies[i] = storeError(refused)
			continue
		}
		next, refused := preferred(img, *p, c.unclean)
		if replies[i] = storeError(refused); refused == nil {
			records = append(records, &metadata.PartitionRecord{
				TopicID: t.ID, Index: ref.Partition, Partition: next})
		}
	}
	return records, replies
}

// preferred returns the partition after an election.
func preferred(
	img *metadata.Image, p metadata.Partition, unclean bool,
) (metadata.Partition, *Error) {
	wanted := p.Replicas[0]
	_, alive := img.Broker(wanted)
	switch {
	case unclean && p.Leader != metadata.NoLeader, p.Leader == wanted:
		return p, refuse(ErrElectionNotNeeded, "broker %d leads", p.Leader)
	case !alive, !unclean && !slices.Contains(p.ISR, wanted):
		return p, refuse(ErrElectionNotNeeded, "broker %d is not in sync", wanted)
	}
	p.Leader = wanted
	if !slices.Contains(p.ISR, wanted) {
		p.ISR = []int32{wanted}
	}
	p.LeaderEpoch++
	p.PartitionEpoch++
	return p, nil
}

// Reassignment gives a partition other replicas.
type Reassignment struct {
	PartitionRef
	Replicas []int32 // the preferred leader first; nil ends a move that is under way
	// SameFactor refuses another number of replicas than now.
	SameFactor bool
}

// Reassign checks moves of partitions. On one node there is nothing to move: only what is so
// already is accepted, and no move is ever under way. The errors are in the order of the moves.
func (c *Controller) Reassign(ctx context.Context, moves []Reassignment) ([]error, error) {
	var replies []*storedError
	if err := c.do(ctx, &reassign{moves}, &replies); err != nil {
		return nil, err
	}
	return storedErrors(replies), nil
}

type reassign struct{ moves []Reassignment }

func (c *reassign) handle(img *metadata.Image) ([]metadata.Record, any) {
	replies := make([]*storedError, len(c.moves))
	for i, m := range c.moves {
		replies[i] = storeError(checkMove(img, m))
	}
	return nil, replies
}

func checkMove(img *metadata.Image, m Reassignment) *Error {
	_, p, refused := m.find(img)
	switch {
	case refused != nil:
		return refused
	case m.Replicas == nil:
		return refuse(ErrNoReassignment, "no reassignment of %s-%d is in progress", m.Topic, m.Partition)
	}
	if refused := checkReplicas(img, m.Replicas); refused != nil {
		return refused
	}
	if m.SameFactor && len(m.Replicas) != len(p.Replicas) {
		return refuse(ErrInvalidReplicationFactor, "%s-%d has %d replicas, not %d", m.Topic,
			m.Partition, len(p.Replicas), len(m.Replicas))
	}
	if !slices.Equal(m.Replicas, p.Replicas) {
		return refuse(ErrInvalidAssignment, "%s-%d cannot be moved from %v to %v: replication over "+
			"several brokers is not there yet", m.Topic, m.Partition, p.Replicas, m.Replicas)
	}
	return nil
}
