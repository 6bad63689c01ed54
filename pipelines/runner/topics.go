package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/task"
)

// defaultPartitions is how a topic is cut when neither the file nor another topic says.
const defaultPartitions = 6

// keepForEver is the retention of topics a pipeline makes. Their records carry event time, so that
// the broker's default of seven days would delete the results of historical data at once.
const keepForEver = "-1"

// topics are the topics of one run: what is there, and what has to be made.
type topics struct {
	admin client.Admin
	app   string
	plan  *plan.Plan
	// rename gives the name an output has in this run.
	rename     func(string) string
	partitions map[string]int32
}

// ensure makes what is missing and learns how each topic is cut.
func (t *topics) ensure(ctx context.Context, replay bool) error {
	t.partitions = map[string]int32{}
	specs := t.inputs(replay)
	if err := t.make(ctx, specs); err != nil {
		return err
	}
	return t.make(ctx, t.outputs(replay))
}

// inputs are the topics of sources and tables. Only a connector's topic is made: one that somebody
// else fills must be there, or nothing would ever come out of it.
func (t *topics) inputs(replay bool) []client.TopicSpec {
	var specs []client.TopicSpec
	for _, s := range t.plan.Sources {
		spec := client.TopicSpec{Name: s.Topic, Partitions: t.wanted(s.Topic),
			Configs: map[string]string{"retention.ms": keepForEver}}
		if t.compacted(s.Topic) {
			spec.Configs = map[string]string{"cleanup.policy": "compact"}
		}
		if s.Connector == nil || replay {
			spec.Partitions = 0
		}
		specs = append(specs, spec)
	}
	for _, table := range t.plan.Tables {
		if table.Source == "" {
			specs = append(specs, client.TopicSpec{Name: table.Topic})
		}
	}
	return specs
}

func (t *topics) compacted(topic string) bool {
	planned := t.plan.Topic(topic)
	return planned != nil && planned.Compacted
}

// wanted is how many partitions a topic is made with.
func (t *topics) wanted(topic string) int32 {
	for seen := 0; seen < 10; seen++ { // SameAs never leads in a circle, but a bug must not hang
		planned := t.plan.Topic(topic)
		if planned == nil {
			return defaultPartitions
		}
		if planned.Partitions > 0 {
			return planned.Partitions
		}
		if planned.SameAs == "" {
			return defaultPartitions
		}
		if n := t.partitions[planned.SameAs]; n > 0 {
			return n
		}
		topic = planned.SameAs
	}
	return defaultPartitions
}

// outputs are the topics of sinks, dead letters and late records, and the ones the runner keeps for
// itself. A shadow output is cut like the live one, so that partitions can be compared.
func (t *topics) outputs(replay bool) []client.TopicSpec {
	partitions := map[string]int32{}
	for _, s := range t.plan.Sinks {
		if replay && s.Connector != nil {
			continue
		}
		partitions[outputTopic(t.app, s)] = t.width(outputTopic(t.app, s))
		partitions[s.Policy.DLQ] = 1
	}
	for _, n := range t.plan.Nodes {
		partitions[n.Policy.DLQ] = 1
		if n.Aggregate != nil && n.Aggregate.LateTopic != "" {
			partitions[n.Aggregate.LateTopic] = 1
		}
	}
	partitions[t.plan.Policy.DLQ] = 1
	delete(partitions, "")
	var specs []client.TopicSpec
	for _, name := range slices.Sorted(maps.Keys(partitions)) {
		n := partitions[name]
		if live := t.partitions[name]; live > 0 {
			n = live
		}
		specs = append(specs, client.TopicSpec{Name: t.rename(name), Partitions: n,
			Configs: map[string]string{"retention.ms": keepForEver}})
	}
	return append(specs, task.CommitTopic(positionTopic(t.app), 1))
}

// width is how a sink's topic is cut: as planned, else as the widest input.
func (t *topics) width(topic string) int32 {
	if planned := t.plan.Topic(topic); planned != nil && planned.Partitions > 0 {
		return planned.Partitions
	}
	n := int32(1)
	for _, s := range t.plan.Sources {
		if !s.TableOnly {
			n = max(n, t.partitions[s.Topic])
		}
	}
	return n
}

// positionTopic keeps how far the connectors of a pipeline have read.
func positionTopic(app string) string { return app + "-positions" }

// make creates the missing topics among specs and notes how all of them are cut.
func (t *topics) make(ctx context.Context, specs []client.TopicSpec) error {
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	there, err := t.admin.Topics(ctx, names...)
	if err != nil {
		return fmt.Errorf("look up topics: %w", err)
	}
	var missing []client.TopicSpec
	for _, s := range specs {
		if info, ok := there[s.Name]; ok {
			t.partitions[s.Name] = info.Partitions
			continue
		}
		if s.Partitions == 0 {
			return fmt.Errorf("topic %q does not exist: create it with: "+
				"millstream topic create %s --partitions N", s.Name, s.Name)
		}
		missing = append(missing, s)
		t.partitions[s.Name] = s.Partitions
	}
	if len(missing) == 0 {
		return nil
	}
	if err := t.admin.CreateTopics(ctx, missing...); err != nil {
		return fmt.Errorf("make topics: %w", err)
	}
	return nil
}
