package task

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// maxRoutes bounds the topics one sink with a topic per record writes: more are a mistake in what
// names them, and every topic costs the cluster files and memory.
const maxRoutes = 1000

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// route tells the topic of a record and the number of its partitions. failed is set when the record
// cannot go where it wants to; err is a failure of the cluster, which is nobody's record's fault.
func (c *Core) route(n *nodeState, rec *operator.Record) (topic string, partitions int32, failed,
	err error) {
	s := n.spec.Sink
	if s.TopicOf == nil {
		return s.Topic, n.partitions, nil, nil
	}
	if topic, failed = s.TopicOf(rec); failed != nil {
		return "", 0, failed, nil
	}
	if partitions = n.routes[topic]; partitions > 0 {
		return topic, partitions, nil, nil
	}
	if why := c.noRoute(n, topic); why != "" {
		return "", 0, operator.WithClass(operator.ClassRoute,
			fmt.Errorf("route to topic %q: %s", topic, why)), nil
	}
	partitions = c.partitionsOf(topic, 0)
	if c.opts.Route != nil {
		if partitions, err = c.opts.Route(topic); err != nil {
			return "", 0, nil, fmt.Errorf("route to topic %q: %w", topic, err)
		}
	}
	if n.routes == nil {
		n.routes = map[string]int32{}
	}
	n.routes[topic] = max(1, partitions)
	return topic, n.routes[topic], nil, nil
}

// noRoute says why no record may be sent to a topic, "" when it may.
func (c *Core) noRoute(n *nodeState, topic string) string {
	app := c.opts.Topology.App
	reads := func(s *topology.Sub) bool {
		return slices.ContainsFunc(s.Sources, func(x topology.Source) bool { return x.Topic == topic }) ||
			slices.ContainsFunc(s.Tables, func(x topology.Table) bool { return x.Topic == topic })
	}
	switch {
	case !topicName.MatchString(topic) || topic == "." || topic == "..":
		return "this is no name of a topic"
	case strings.HasPrefix(topic, "__"):
		return "the topic belongs to the cluster"
	case strings.HasPrefix(topic, app+"-"):
		return fmt.Sprintf("names that begin with %s- belong to the pipeline itself", app)
	case slices.ContainsFunc(c.opts.Topology.Subs, reads):
		return "the pipeline reads it"
	case len(n.routes) >= maxRoutes:
		return fmt.Sprintf("there are %d topics already, more are not made", maxRoutes)
	}
	return ""
}
