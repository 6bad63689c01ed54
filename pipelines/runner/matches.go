package runner

import (
	"context"
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
	matched := Matched(in.p.plan, slices.Sorted(maps.Keys(there)))
	more := false
	for _, pattern := range in.p.plan.Patterns {
		more = more || len(matched[pattern.Source]) > len(pattern.Topics)
	}
	return matched, more, nil
}

// Matched gives the topics of each pattern of a plan: those it has, and behind them those of others
// that it finds. What the pipeline writes itself it does not read.
func Matched(p *plan.Plan, topics []string) map[string][]string {
	matched := map[string][]string{}
	for _, pattern := range p.Patterns {
		list := slices.Clone(pattern.Topics)
		for _, topic := range topics {
			if pattern.Matches(topic) && !slices.Contains(list, topic) && !writes(p, pattern, topic) {
				list = append(list, topic)
			}
		}
		matched[pattern.Source] = list
	}
	return matched
}

func writes(p *plan.Plan, pattern lang.Pattern, topic string) bool {
	for _, t := range p.Topics {
		if t.Name == topic && t.Role != plan.TopicSource && t.Role != plan.TopicTable {
			return true
		}
	}
	return topic == pattern.Text
}
