package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// describeConsumerGroup describes a group of the protocol of KIP-848, which has a request of its
// own. It returns nil for a group that is none, and for brokers without that request.
func describeConsumerGroup(
	ctx context.Context, adm *kadm.Client, name string,
) (*groupDescription, error) {
	described, err := adm.DescribeConsumerGroups(ctx, name)
	if err != nil {
		return nil, nil //nolint:nilerr // no such request there: DescribeGroups says what is wrong
	}
	g := described[name]
	switch {
	case errors.Is(g.Err, kerr.GroupIDNotFound), errors.Is(g.Err, kerr.UnsupportedVersion):
		return nil, nil
	case g.Err != nil:
		return nil, fmt.Errorf("describe group %s: %w", name, g.Err)
	}
	d := &groupDescription{Name: name, Type: "consumer", State: g.State, Protocol: g.AssignorName,
		Epoch: &g.Epoch, AssignmentEpoch: &g.AssignmentEpoch,
		Members: []groupMember{}, Offsets: []groupOffset{}}
	owners := make(map[string]map[int32]string) // topic, partition, id of the member that has it
	for _, m := range g.Members {
		member := groupMember{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost,
			Epoch: &m.MemberEpoch, Assigned: partitionsOf(m.Assignment),
			Target: partitionsOf(m.TargetAssignment)}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		d.Members = append(d.Members, member)
		for topic, partitions := range m.Assignment {
			if owners[topic] == nil {
				owners[topic] = make(map[int32]string)
			}
			for p := range partitions {
				owners[topic][p] = m.MemberID
			}
		}
	}
	if err := d.addOffsets(ctx, adm, g.AssignedPartitions(), owners); err != nil {
		return nil, fmt.Errorf("describe group %s: %w", name, err)
	}
	return d, nil
}

func partitionsOf(set kadm.TopicsSet) map[string][]int32 {
	out := make(map[string][]int32)
	for _, t := range set.Sorted() {
		out[t.Topic] = t.Partitions
	}
	return out
}

// addOffsets adds what the group has committed and what its members have, and how far behind it is.
// Where nothing is committed, all records are still to be read.
func (d *groupDescription) addOffsets(
	ctx context.Context, adm *kadm.Client, set kadm.TopicsSet, owners map[string]map[int32]string,
) error {
	committed, err := adm.FetchOffsets(ctx, d.Name)
	if err != nil {
		return fmt.Errorf("fetch committed offsets: %w", err)
	}
	set.Merge(committed.Partitions())
	if len(set) == 0 {
		return nil
	}
	starts, err := adm.ListStartOffsets(ctx, set.Topics()...)
	if err != nil {
		return fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, set.Topics()...)
	if err != nil {
		return fmt.Errorf("list end offsets: %w", err)
	}
	for _, t := range set.Sorted() {
		for _, p := range t.Partitions {
			row := groupOffset{Topic: t.Topic, Partition: p, Committed: -1, End: -1, Lag: -1,
				Member: owners[t.Topic][p]}
			from, _ := starts.Lookup(t.Topic, p)
			next := from.Offset
			if c, ok := committed.Lookup(t.Topic, p); ok && c.Err == nil && c.At >= 0 {
				row.Committed, next = c.At, c.At
			}
			if end, ok := ends.Lookup(t.Topic, p); ok && end.Err == nil {
				row.End, row.Lag = end.Offset, max(0, end.Offset-next)
				d.Lag += row.Lag
			}
			d.Offsets = append(d.Offsets, row)
		}
	}
	return nil
}
