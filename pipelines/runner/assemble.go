package runner

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// assembly turns a plan into a topology of the streams layer.
type assembly struct {
	app        string // names the topics of connectors
	tasks      string // names internal topics, transactions and state
	plan       *plan.Plan
	partitions func(topic string) int32
	plugins    pluginSteps
	log        *slog.Logger
	now        func() time.Time
	// shadow is set on replays: outputs are redirected and windows begun before the range left out.
	shadow *shadow

	b *topology.Builder
	// at gives the topology's name of what an id of the plan names.
	at map[string]string
	// width is the number of partitions behind an id.
	width map[string]int32
}

// pluginSteps makes the operator of a plugin step; the runner implements it with processes.
type pluginSteps interface {
	factory(n *plan.Node) operator.Factory
}

// build assembles everything. The topics must exist.
func (a *assembly) build() (*topology.Topology, error) {
	a.at, a.width = map[string]string{}, map[string]int32{}
	a.b = topology.NewBuilder(topology.Options{App: a.tasks, ConfigHash: a.plan.Fingerprint[:16],
		OnError: a.policy(a.plan.Policy), CloseAtEnd: a.closesAtEnd(), Cut: a.cut,
		StepName: namesOf(a.plan).inFile})
	for _, s := range a.plan.Sources {
		if !s.TableOnly {
			a.source(s)
		}
	}
	for _, n := range a.plan.Nodes {
		if err := a.node(n); err != nil {
			return nil, fmt.Errorf("step %s: %w", n.ID, err)
		}
	}
	for _, s := range a.plan.Sinks {
		a.sink(s)
	}
	return a.b.Build(a.partitions)
}

// cut is how the plan cuts the repartition topic of a key_by of the streams layer.
func (a *assembly) cut(keyBy string) int32 {
	for _, n := range a.plan.Nodes {
		if n.KeyBy != nil && n.StreamID() == keyBy {
			return a.partitions(n.KeyBy.Topic)
		}
	}
	return 0
}

// closesAtEnd: the end of input closes windows only if every source says so.
func (a *assembly) closesAtEnd() bool {
	for _, s := range a.plan.Sources {
		if !s.TableOnly && !s.CloseAtEnd {
			return false
		}
	}
	return true
}

func (a *assembly) source(s *plan.Source) {
	policy := a.policy(s.Policy)
	bad := eventtime.BadFails
	if s.PartitionTime {
		bad = eventtime.BadPartitionTime
	}
	opts := topology.SourceOptions{
		Timestamp: a.timestamp(s), Disorder: s.MaxLateness, OnError: &policy, Bad: bad,
		IdleAfter: s.IdleAfter, MaxSkew: s.MaxSkew, Group: s.Group,
	}
	if s.Rows {
		opts.Check = rowCheck(s.Value)
	}
	a.b.Source(s.StreamID(), s.Topic, opts)
	a.at[s.ID], a.width[s.ID] = s.StreamID(), a.partitions(s.Topic)
}

// timestamp evaluates event_time. The function is shared by the tasks, so each call takes a view of
// its own from a pool.
func (a *assembly) timestamp(s *plan.Source) eventtime.Extractor {
	if s.EventTime == nil {
		return nil
	}
	views := newViewPool(s.Set, a.now)
	return func(r *operator.Record) (int64, error) {
		v := views.get()
		defer views.put(v)
		ts, err := s.EventTime.Time(v.at(r))
		v.note(r)
		if err != nil {
			return 0, classifyTime(err)
		}
		return ts, nil
	}
}

// routeOf names the topic of a record, and takes from it what only this pipeline's steps
// understand. The function is shared by the tasks, as that of timestamp.
func (a *assembly) routeOf(n *plan.Node) func(*operator.Record) (string, error) {
	views := newViewPool(n.Set, a.now)
	return func(r *operator.Record) (string, error) {
		v := views.get()
		defer views.put(v)
		topic, err := n.Route.Append(nil, v.at(r))
		if err != nil {
			return "", classify(err)
		}
		r.Headers = publicHeaders(r.Headers)
		return a.topic(string(topic)), nil
	}
}

// node adds one node behind what it reads.
func (a *assembly) node(n *plan.Node) error {
	id := n.StreamID()
	if inForeign(n) {
		a.at[n.ID] = id
		if a.width[n.ID] = a.width[n.From[0]]; n.KeyBy != nil {
			a.width[n.ID] = a.partitions(n.KeyBy.Topic)
		}
		return nil
	}
	from := a.input(n, id)
	policy := a.policy(n.Policy)
	a.at[n.ID] = id
	add := func(factory operator.Factory) {
		a.b.Process(id, []string{from}, topology.ProcessOptions{
			Kind: string(n.Kind), New: factory, OnError: &policy, Transient: true})
	}
	switch n.Kind {
	case plan.KindFilter:
		if n.OverTable {
			add(filterRowsStep(n.Set, n.Filter, a.now))
			break
		}
		add(filterStep(n.Set, n.Filter, a.now))
	case plan.KindMap:
		add(valueStepOf(n)(n.Set, a.now, n.Map.AppendJSON))
	case plan.KindPatch:
		add(valueStepOf(n)(n.Set, a.now, n.Patch.Append))
	case plan.KindMerge:
		if len(n.From) == 1 {
			a.b.Merge(id, from)
		}
	case plan.KindTable:
		a.keepRows(n, id, from, &policy)
	case plan.KindFlatMap:
		add(flatMapStep(n.Set, n.FlatMap, a.now))
	case plan.KindLog:
		add(logStep(n.Set, n.Log, n.ID, a.log, a.now))
	case plan.KindRoute:
		a.b.Route(id, from, a.routeOf(n), topology.SinkOptions{OnError: &policy})
	case plan.KindKeyBy:
		if n.KeyBy.Group {
			a.groupRows(n, id, from, &policy)
			break
		}
		a.keyBy(n, id, from, &policy)
	case plan.KindBranch:
		a.branch(n, id, from, &policy)
	case plan.KindJoin:
		a.join(n, id, from, &policy)
	case plan.KindAggregate, plan.KindReduce:
		return a.aggregate(n, id, from, &policy)
	case plan.KindDedupe, plan.KindThrottle:
		a.gate(n, id, from, &policy)
	case plan.KindPlugin:
		opts := topology.ProcessOptions{Kind: string(n.Kind), New: a.plugins.factory(n),
			OnError: &policy, WallClock: n.Plugin.WallTimers}
		if n.Plugin.Timers {
			opts.Stores = operator.TimerStores(id)
		}
		a.b.Process(id, []string{from}, opts)
	default:
		return fmt.Errorf("the operator %q is not supported yet", n.Kind)
	}
	return nil
}

// input gives the one node n reads; several are merged first.
func (a *assembly) input(n *plan.Node, id string) string {
	a.width[n.ID] = a.width[n.From[0]]
	if len(n.From) == 1 {
		return a.at[n.From[0]]
	}
	var from []string
	for _, up := range n.From {
		from = append(from, a.at[up])
	}
	if n.Kind != plan.KindMerge {
		id += ":merge"
	}
	a.b.Merge(id, from...)
	return id
}

// keyBy sets the key and moves records to the task of that key. The key is set by a step of its
// own, because each task needs its own view.
func (a *assembly) keyBy(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	null, policy := nullKey(n.KeyBy, policy)
	key := n.UserID() + ":key-set"
	if n.Implicit && strings.HasSuffix(n.ID, ".with") { // a join may need a key on both sides
		key = n.UserID() + ":with-set"
	}
	a.b.Process(key, []string{from}, topology.ProcessOptions{Kind: "key",
		New: keyStep(n, null, a.now), OnError: policy, Transient: true})
	a.width[n.ID] = a.partitions(n.KeyBy.Topic)
	a.b.KeyBy(id, key, topology.KeyByOptions{
		Key:        func(r *operator.Record) ([]byte, error) { return r.Key, nil },
		Partitions: a.width[n.ID], Null: null, OnError: policy, Transient: true,
	})
}

// nullKey is what happens to a record whose new key is null, and the policy for those that fail.
func nullKey(
	k *plan.KeyBy, policy *operator.ErrorPolicy,
) (operator.NullKey, *operator.ErrorPolicy) {
	switch k.Null {
	case "drop":
		return operator.NullKeyDrop, policy
	case "round_robin":
		return operator.NullKeySpread, policy
	case "dlq":
		policy = withAction(policy, operator.ClassNullKey, operator.ToDeadLetter)
	}
	return operator.NullKeyFails, policy
}

func (a *assembly) branch(n *plan.Node, id, from string, policy *operator.ErrorPolicy) {
	var names []string
	for _, arm := range n.Arms {
		names = append(names, arm.ID)
		a.at[arm.ID], a.width[arm.ID] = id+"."+arm.ID, a.width[n.ID]
	}
	a.b.Process(id, []string{from}, topology.ProcessOptions{Kind: "branch", Outputs: names,
		New: branchStep(n, a.now), OnError: policy, Transient: true})
}

// sink adds the step that makes key and value, and the topic it goes to.
func (a *assembly) sink(s *plan.Sink) {
	if a.shadow != nil && s.Connector != nil {
		return // a replay must not repeat what the live run told other systems
	}
	policy := a.policy(s.Policy)
	id := s.ID + ":out"
	a.b.Process(id, []string{a.at[s.From]}, topology.ProcessOptions{Kind: "output",
		New: outputStep(s, a.now), OnError: &policy, Transient: true})
	a.b.Sink(s.ID+":sink", id, a.topic(plan.OutputTopic(a.app, s)),
		topology.SinkOptions{OnError: &policy})
}

// topic is where an output goes: beside the live one on a replay.
func (a *assembly) topic(live string) string {
	if a.shadow == nil || live == "" {
		return live
	}
	return a.shadow.topic(live)
}

// policy says a plan's policy in the streams layer's words.
func (a *assembly) policy(p check.Policy) operator.ErrorPolicy {
	out := errorPolicy(p)
	out.DeadLetterTopic = a.topic(out.DeadLetterTopic)
	return out
}

// errorPolicy says a pipeline's policy in the streams layer's words.
func errorPolicy(p check.Policy) operator.ErrorPolicy {
	out := operator.ErrorPolicy{Then: errorAction(p.Then), DeadLetterTopic: p.DLQ,
		ByClass: map[string]operator.Action{}}
	for class, action := range p.ByClass {
		if action != check.ActionRetry {
			out.ByClass[class] = errorAction(action)
		}
	}
	return out
}

func errorAction(a check.Action) operator.Action {
	switch a {
	case check.ActionDLQ:
		return operator.ToDeadLetter
	case check.ActionDrop:
		return operator.Drop
	default:
		return operator.Stop
	}
}
