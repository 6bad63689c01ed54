package runner

import (
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/operator"
)

// shadow is how a replay differs from the live run.
type shadow struct {
	spec *deploy.Replay
	// edge is the largest event time before the range: a window that starts at or before it may
	// have records the range does not hold.
	edge int64
}

// topic is the name of a shadow output.
func (s *shadow) topic(live string) string { return ShadowTopic(s.spec.Prefix, live) }

// ShadowTopic is the name of the output of a replay that stands beside a live one.
func ShadowTopic(prefix, live string) string { return prefix + "." + live }

// complete keeps results of windows that lie within the range. A session that begins less than its
// gap behind the edge may have begun before. Results of other than windows of time are kept: what
// came before the range is missing in them.
func (s *shadow) complete(agg *plan.Aggregate) func(r *operator.Record) (bool, error) {
	edge := s.edge
	switch {
	case edge == operator.NoTime:
	case agg.Window == plan.NoWindow || agg.Window == plan.CountOf:
		edge = operator.NoTime
	case agg.Window == plan.Session:
		edge += agg.Size.Milliseconds()
	}
	return func(r *operator.Record) (bool, error) {
		return edge == operator.NoTime || r.Window.Start > edge, nil
	}
}
