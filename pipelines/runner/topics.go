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
	if err := t.learn(ctx); err != nil {
		return err
	}
	specs := t.inputs(replay)
	if err := t.make(ctx, specs); err != nil {
		return err
	}
	t.planned()
	return t.make(ctx, t.outputs(replay))
}

// planned notes how repartition topics are cut, which the streams layer makes.
func (t *topics) planned() {
	for _, n := range t.plan.Nodes {
		if n.KeyBy != nil {
			t.partitions[n.KeyBy.Topic] = t.wanted(n.KeyBy.Topic)
		}
	}
}

// learn notes how the planned topics that exist are cut. A replay learns it of the live outputs, so
// that the shadow's are cut alike.
func (t *topics) learn(ctx context.Context) error {
	t.partitions = map[string]int32{}
	var names []string
	for _, planned := range t.plan.Topics {
		names = append(names, planned.Name)
	}
	there, err := t.admin.Topics(ctx, names...)
	if err != nil {
		return fmt.Errorf("look up topics: %w", err)
	}
	for name, info := range there {
		t.partitions[name] = info.Partitions
	}
	return nil
}

// inputs are the topics of sources and tables. Only a connector's topic is made: one that somebody
// else fills must be there, or nothing would ever come out of it.
func (t *topics) inputs(replay bool) []client.TopicSpec {
	var specs []client.TopicSpec
	for _, s := range t.plan.Sources {
		spec := client.TopicSpec{Name: s.Topic, Partitions: t.wanted(s.Topic),
			Configs: map[string]string{"retention.ms": keepForEver,
				"max.message.bytes": client.LargeRecords}}
		if t.compacted(s.Topic) {
			spec.Configs = map[string]string{"cleanup.policy": "compact",
				"max.message.bytes": client.LargeRecords}
		}
		if s.Connector == nil || replay {
			spec.Partitions = 0
		}
		specs = append(specs, spec)
	}
	for _, table := range t.plan.Tables {
		if table.Topic == "" {
			continue // made of a step
		}
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

// wanted is how many partitions a topic has or is made with.
func (t *topics) wanted(topic string) int32 {
	for range len(t.plan.Topics) + 1 { // SameAs never leads in a circle, but a bug must not hang
		if n := t.partitions[topic]; n > 0 {
			return n
		}
		planned := t.plan.Topic(topic)
		switch {
		case planned == nil || planned.Partitions == 0 && planned.SameAs == "":
			return defaultPartitions
		case planned.Partitions > 0:
			return planned.Partitions
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
		partitions[plan.OutputTopic(t.app, s)] = t.wanted(t.plan.OutputTopic(s))
		partitions[s.Policy.DLQ] = 1
	}
	for _, n := range t.plan.Nodes {
		partitions[n.Policy.DLQ] = 1
		if late := n.LateTopic(); late != "" {
			partitions[late] = 1
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
			Configs: map[string]string{"retention.ms": keepForEver,
				"max.message.bytes": client.LargeRecords}})
	}
	if !replay && t.plan.FilledByConnectors() {
		specs = append(specs, task.CommitTopic(plan.PositionTopic(t.app), 1))
	}
	return specs
}

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
