package runner

import (
	"github.com/millstream-io/millstream/pipelines/deploy"
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

// complete keeps results of windows that lie within the range.
func (s *shadow) complete(r *operator.Record) (bool, error) {
	return s.edge == operator.NoTime || r.Window.Start > s.edge, nil
}
