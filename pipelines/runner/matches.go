package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
)

var _ deploy.Matcher = (*instance)(nil)

// Matches implements deploy.Matcher.
func (in *instance) Matches(ctx context.Context) (map[string][]string, bool, error) {
	if len(in.p.plan.Patterns) == 0 || in.replay() {
		return nil, false, nil
	}
	in.mu.Lock()
	cluster := in.mu.cluster
	in.mu.Unlock()
	if cluster == nil {
		return nil, false, nil
	}
	there, err := cluster.Admin().AllTopics(ctx)
	if err != nil {
		return nil, false, err
	}
	partitions := map[string]int32{}
	for topic, info := range there {
		partitions[topic] = info.Partitions
	}
	matched, otherwise := Matched(in.p.plan, partitions)
	for _, other := range otherwise {
		if in.warnOnce(other.Topic) {
			in.log.Warn(other.String())
		}
	}
	more := false
	for _, pattern := range in.p.plan.Patterns {
		more = more || len(matched[pattern.Source]) > len(pattern.Topics)
	}
	return matched, more, nil
}

// OtherTopic is a topic that a pattern finds and that cannot be read with those it has.
type OtherTopic struct {
	Topic, Pattern string
	Partitions     int32
	First          string // a topic that the pattern has
	Of             int32  // the partitions of First
}

// String says what is wrong and what to do.
func (o OtherTopic) String() string {
	return fmt.Sprintf("topic %s matches %s and is not read: it has %d partitions, and %s has %d;"+
		" make it anew with %[5]d, or read it in a pipeline of its own", o.Topic, o.Pattern,
		o.Partitions, o.First, o.Of)
}

// warnOnce tells whether a topic is one that nothing was said of.
func (in *instance) warnOnce(topic string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.warned[topic] {
		return false
	}
	if in.mu.warned == nil {
		in.mu.warned = map[string]bool{}
	}
	in.mu.warned[topic] = true
	return true
}

// Matched gives the topics of each pattern of a plan: those it has, and behind them those of others
// that it finds. What the pipeline writes itself it does not read. A topic that is cut otherwise
// than those a pattern has is left out: with it the revision could not begin, and after a restart
// there would be none that can. topics are those there are, with their partitions.
func Matched(p *plan.Plan, topics map[string]int32) (matched map[string][]string,
	otherwise []OtherTopic) {
	matched = map[string][]string{}
	for _, pattern := range p.Patterns {
		list := slices.Clone(pattern.Topics)
		for _, topic := range slices.Sorted(maps.Keys(topics)) {
			if !pattern.Matches(topic) || slices.Contains(list, topic) || writes(p, pattern, topic) {
				continue
			}
			if other, is := unlike(pattern, topic, topics); is {
				otherwise = append(otherwise, other)
				continue
			}
			list = append(list, topic)
		}
		matched[pattern.Source] = list
	}
	return matched, otherwise
}

// unlike tells whether a topic is cut otherwise than the first one that a pattern has. One that has
// none takes all: the plan is compared with the cluster before it is applied.
func unlike(pattern lang.Pattern, topic string, topics map[string]int32) (OtherTopic, bool) {
	if len(pattern.Topics) == 0 {
		return OtherTopic{}, false
	}
	first := pattern.Topics[0]
	of, there := topics[first]
	return OtherTopic{Topic: topic, Pattern: pattern.Text, Partitions: topics[topic], First: first,
		Of: of}, there && of != topics[topic]
}

func writes(p *plan.Plan, pattern lang.Pattern, topic string) bool {
	for _, t := range p.Topics {
		if t.Name == topic && t.Role != plan.TopicSource && t.Role != plan.TopicTable {
			return true
		}
	}
	return topic == pattern.Text
}
