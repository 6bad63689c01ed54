package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// compactionLag keeps the cleaner away from the last hour of a changelog. Rows that a crash left
// without a commit record must not displace committed rows before the task has taken them back.
const compactionLag = "3600000"

// setup is what the start of a worker learned of the cluster.
type setup struct {
	topics map[string]client.TopicInfo
	group  map[client.TopicPartition]int64
}

// of returns what one task needs of it.
func (s *setup) of(t *loop) start {
	return start{
		changelogID: s.topics[t.changelog.Topic].ID,
		topics:      s.topics,
		group:       s.group,
	}
}

// prepare makes the internal topics and checks the others.
func (w *Worker) prepare(ctx context.Context) (*setup, error) {
	admin := w.opts.Cluster.Admin()
	internal := internalTopics(w.opts)
	if err := admin.CreateTopics(ctx, internal...); err != nil {
		return nil, fmt.Errorf("make internal topics: %w", err)
	}
	want := map[string]int32{} // topic -> partitions, 0 any
	for _, sub := range w.opts.Topology.Subs {
		for _, topic := range OutputTopics(sub) {
			want[topic] = 0
		}
		for i := range sub.Sources {
			want[sub.Sources[i].Topic] = sub.Sources[i].Partitions
		}
		for i := range sub.Tables {
			want[sub.Tables[i].Topic] = sub.Tables[i].Partitions
		}
	}
	for _, spec := range internal {
		want[spec.Name] = spec.Partitions
	}
	names := slices.Sorted(maps.Keys(want))
	s := &setup{}
	var err error
	if s.topics, err = admin.Topics(ctx, names...); err != nil {
		return nil, err
	}
	var faults []error
	for _, name := range names {
		info, ok := s.topics[name]
		switch {
		case !ok:
			faults = append(faults, fmt.Errorf("topic %s does not exist: %w; create it first", name,
				ErrTopics))
		case want[name] != 0 && info.Partitions != want[name]:
			faults = append(faults, fmt.Errorf("topic %s has %d partitions, the pipeline was planned"+
				" for %d: %w; keys would move between tasks", name,
				info.Partitions, want[name], ErrTopics))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if s.group, err = admin.CommittedOffsets(ctx, w.opts.Group); err != nil {
		return nil, err
	}
	return s, nil
}

// internalTopics lists what has to exist. A repartition topic keeps its records until they are
// deleted as read: retention must not outrun a stopped pipeline.
func internalTopics(o Options) []client.TopicSpec {
	specs := map[string]client.TopicSpec{}
	for _, t := range o.Topology.InternalTopics() {
		if t.Kind == "changelog" {
			continue // below, for all sub-topologies
		}
		specs[t.Name] = client.TopicSpec{
			Name: t.Name, Partitions: t.Partitions, Replication: o.Replication,
			Configs: map[string]string{"cleanup.policy": "delete", "retention.ms": "-1",
				"max.message.bytes": client.LargeRecords},
		}
	}
	for _, sub := range o.Topology.Subs {
		name := ChangelogTopic(o.Topology.App, sub.Name)
		specs[name] = client.TopicSpec{
			Name: name, Partitions: sub.Partitions, Replication: o.Replication,
			Configs: map[string]string{
				"cleanup.policy": "compact", "min.compaction.lag.ms": compactionLag,
				"max.message.bytes": client.LargeRecords,
			},
		}
	}
	if DecidesIdle(o.Topology) {
		name := IdleTopic(o.Topology.App)
		specs[name] = client.TopicSpec{Name: name, Partitions: 1, Replication: o.Replication,
			Configs: map[string]string{"cleanup.policy": "compact"}}
	}
	list := make([]client.TopicSpec, 0, len(specs))
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		list = append(list, specs[name])
	}
	return list
}

// OutputTopics lists the topics a task of sub may write.
func OutputTopics(sub *topology.Sub) []string {
	topics := map[string]bool{}
	policy := func(p operator.ErrorPolicy) {
		if p.DeadLetterTopic != "" {
			topics[p.DeadLetterTopic] = true
		}
	}
	for i := range sub.Sources {
		policy(sub.Sources[i].OnError)
	}
	for i := range sub.Tables {
		policy(sub.Tables[i].OnError)
	}
	for i := range sub.Nodes {
		n := &sub.Nodes[i]
		policy(n.OnError)
		if n.Late.Topic != "" {
			topics[n.Late.Topic] = true
		}
		if n.Sink != nil && n.Sink.TopicOf == nil {
			topics[n.Sink.Topic] = true
		}
	}
	return slices.Sorted(maps.Keys(topics))
}
