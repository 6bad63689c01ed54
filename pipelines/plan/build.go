package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// ErrInvalid is returned for a pipeline that has errors.
var ErrInvalid = errors.New("the pipeline has errors")

// Compile loads, checks and plans a pipeline file. The plan is nil when a finding is an error. It
// is what lint, plan, apply and run all call.
func Compile(name string, text []byte, vars lang.Options,
	opts check.Options) (*Plan, *lang.Pipeline, []lang.Finding) {
	tree, findings := lang.Load(name, text, vars)
	result, findings := check.Check(tree, findings, opts)
	if lang.HasErrors(findings) {
		return nil, tree, findings
	}
	p, more := Build(result)
	findings = lang.SortFindings(append(findings, more...))
	if lang.HasErrors(findings) {
		return nil, tree, findings
	}
	return p, tree, findings
}

// builder holds one run of Build.
type builder struct {
	in       *check.Result
	plan     *Plan
	findings []lang.Finding
	// arms maps a branch's ways out to the branch's id.
	arms map[string]string
	// first are the earlier ids that something has taken over, by what they name.
	first map[string]bool
}

// Build plans a checked pipeline without errors. What only shows in the whole is returned as
// findings.
func Build(r *check.Result) (*Plan, []lang.Finding) {
	b := &builder{in: r, arms: map[string]string{}, plan: &Plan{
		Pipeline: string(r.Tree.Name.Value), Vars: r.Vars, Policy: r.Policy,
		Resources: resources(r.Tree.Resources), Patterns: r.Tree.Patterns,
	}}
	for _, s := range r.Sources {
		b.source(s)
	}
	for _, t := range r.Tables {
		b.table(t)
	}
	for _, s := range r.Steps {
		b.step(s)
	}
	for _, s := range r.Sinks {
		b.sink(s)
	}
	b.apart()
	b.rowSources()
	b.carry()
	b.split()
	b.topics()
	b.guarantees()
	b.fingerprints()
	return b.plan, b.findings
}

func resources(r *lang.Resources) Resources {
	out := Resources{CommitInterval: DefaultCommitInterval}
	if r == nil {
		return out
	}
	out.CommitInterval = r.CommitInterval.Or(DefaultCommitInterval)
	out.Standby = int(r.Standby.Value)
	return out
}

func (b *builder) source(s *check.Source) {
	t := s.Tree
	out := &Source{
		ID: s.ID, Was: b.renamedFrom("source", s.ID, t.RenamedFrom.Items),
		Topic: s.Topic, Key: s.KeyDoc, Value: s.Out.Scope.Value, Set: s.Set,
		KeyProgram: s.Key, EventTime: s.EventTime, MaxLateness: t.MaxLateness.Value,
		IdleAfter: t.IdleAfter.Value, MaxSkew: t.MaxSkew.Value, Policy: s.Policy,
		PartitionTime: t.OnBadTime.Value == "partition_time",
		Group:         t.Group, CloseAtEnd: s.CloseAtEnd, TableOnly: s.TableOnly && !s.Streamed, Pos: t.Pos,
		Start: Start{Latest: t.Start.At.Value == "latest"},
	}
	if ts := t.Start.Timestamp; ts.Set {
		at, err := time.Parse(time.RFC3339Nano, ts.Value)
		if err != nil {
			b.findings = append(b.findings, lang.Finding{File: ts.Pos.File, Line: ts.Pos.Line,
				Col: ts.Pos.Col, Width: len(ts.Value), Code: lang.CodeBadValue,
				Severity: lang.Error, Message: fmt.Sprintf("%q is not a time", ts.Value),
				Hint: "write it as 2026-01-02T15:04:05Z"})
		}
		out.Start.Timestamp, out.Start.HasTimestamp = at.UnixMilli(), true
	}
	if t.Connector.Set {
		out.Connector = &Connector{Name: t.Connector.Value, Config: &t.Config,
			Pos: t.Connector.Pos}
	}
	out.Deterministic = s.Connector == nil || s.Connector.Deterministic
	b.plan.Sources = append(b.plan.Sources, out)
}

func (b *builder) table(t *check.Table) {
	out := &Table{ID: t.ID, Was: b.renamedFrom("table", t.ID, t.Tree.RenamedFrom.Items),
		Topic: t.Topic, Step: t.Step, Key: t.Key, Value: t.Doc.Doc, Global: t.Tree.Global.Value}
	out.Store = b.name(out.StreamID(), "table")
	if t.From != nil {
		out.Source = t.From.ID
	}
	b.plan.Tables = append(b.plan.Tables, out)
}

// name is the name of something that belongs to the pipeline alone.
func (b *builder) name(id, what string) string {
	return b.plan.Pipeline + "-" + id + "-" + what
}

func (b *builder) step(s *check.Step) {
	n := &Node{ID: s.ID, From: b.reads(s), Set: s.Set, Policy: s.Policy,
		Pos: s.Tree.Pos, Deterministic: true, OverTable: s.In.Table}
	n.Was = b.renamedFrom("step", s.ID, s.Tree.RenamedFrom.Items)
	out := s.Out
	if out == nil {
		out = s.In
	}
	n.Key, n.Value, n.Rows = out.Scope.Key, out.Scope.Value, out.Scope.Rows
	n.Window = out.Scope.Window
	t := s.Tree
	switch t.Operator {
	case "filter":
		n.Kind, n.Filter = KindFilter, s.Program
	case "map":
		n.Kind, n.Map = KindMap, s.Projection
	case "set", "unset":
		n.Kind, n.Patch = KindPatch, s.Patch
	case "flat_map":
		n.Kind, n.FlatMap = KindFlatMap, s.Program
	case "log":
		n.Kind, n.Log = KindLog, s.Template
	case "route":
		n.Kind, n.Route = KindRoute, s.Template
	case "key_by":
		n.Kind = KindKeyBy
		n.KeyBy = &KeyBy{Key: s.Program, Topic: b.name(n.StreamID(), "repartition"),
			Null: t.KeyBy.NullKey.Value}
	case "merge":
		n.Kind = KindMerge
	case "branch":
		n.Kind = KindBranch
		for _, a := range s.Arms {
			n.Arms = append(n.Arms, Arm{ID: a.Out.ID, When: a.When})
			b.arms[a.Out.ID] = s.ID
		}
	case "join":
		n.Kind = KindJoin
		b.join(n, s)
	case "aggregate":
		if s.In.Table {
			b.groupRows(n, s)
		} else {
			b.rekey(n, s)
		}
		n.Kind, n.Aggregate, n.Set = KindAggregate, b.aggregate(s), s.FoldSet
	case "reduce":
		b.rekey(n, s)
		n.Kind, n.Aggregate, n.Set = KindReduce, b.aggregate(s), s.FoldSet
	case "dedupe":
		b.rekey(n, s)
		n.Kind, n.Gate = KindDedupe, &Gate{Within: t.Dedupe.Within.Value, Keyed: true,
			Store: b.name(s.ID, "store")}
	case "throttle":
		b.rekey(n, s)
		rate := t.Throttle.Rate.Value
		n.Kind, n.Gate = KindThrottle, &Gate{Count: rate.Count, Within: rate.Per.Value,
			Keyed: t.Throttle.Key.Set, ToDLQ: t.Throttle.Over.Value == "dlq",
			Store: b.name(s.ID, "store")}
	case "plugin":
		n.Kind = KindPlugin
		b.plugin(n, s)
	}
	b.plan.Nodes = append(b.plan.Nodes, n)
}

// rekey puts a key_by before a node that needs another key than the records have.
func (b *builder) rekey(n *Node, s *check.Step) {
	if s.KeyOK {
		return
	}
	key := *n
	key.ID, key.Kind, key.Implicit = s.ID+".key", KindKeyBy, true
	key.Was = n.wasPart("key")
	key.Rows, key.Value, key.Window = s.In.Scope.Rows, s.In.Scope.Value, s.In.Scope.Window
	key.KeyBy = &KeyBy{Key: s.Program, Topic: b.name(key.StreamID(), "repartition")}
	if j := s.Tree.Join; j != nil && j.Type.Value != "inner" && j.Type.Set {
		key.KeyBy.Null = nullPassed // the join keeps the record, with nothing beside it
	}
	b.keyTaken(s, key.StreamID())
	b.plan.Nodes = append(b.plan.Nodes, &key)
	n.From = []string{key.ID}
}

// nullPassed lets records without a key through.
const nullPassed = "round_robin"

// keyTaken reports a step or source that has the name under which the key_by before s runs.
func (b *builder) keyTaken(s *check.Step, id string) {
	b.taken(s.Tree.Pos, id, fmt.Sprintf("the new key of step %q", s.ID))
}

func (b *builder) plugin(n *Node, s *check.Step) {
	u := s.Plugin
	n.Plugin = &PluginStep{Alias: u.Alias, Source: u.Source, Operator: u.Operator,
		Config: &s.Tree.Plugin.Config, Memory: u.Memory}
	// A plugin that cannot be asked is taken at the word every operator gives: the same batch
	// gives the same result.
	n.Deterministic = u.Component == nil || u.Component.Deterministic
	if u.Component != nil {
		n.Plugin.Timers, n.Plugin.WallTimers = u.Component.Timers, u.Component.WallTimers
	}
	if !slices.ContainsFunc(b.plan.Plugins, func(p *Plugin) bool { return p.Alias == u.Alias }) {
		b.plan.Plugins = append(b.plan.Plugins,
			&Plugin{Alias: u.Alias, Source: u.Source, Memory: u.Memory})
	}
}

// sinkReads is what a sink reads: of a table the changes, so that no deletion is written of what
// was never there.
func (b *builder) sinkReads(s *check.Sink) string {
	if t := b.tableOf(s.From); t != nil {
		return b.changesOf(t)
	}
	return s.From
}

func (b *builder) sink(s *check.Sink) {
	t := s.Tree
	out := &Sink{
		ID: s.ID, From: b.sinkReads(s), Topic: string(t.Topic.Value), Set: s.Set, Key: s.Key,
		KeyDoc: s.In.Scope.Key, Value: s.Value, Text: s.Text, ValueDoc: s.In.Scope.Value,
		Policy: s.Policy, Pos: t.Pos,
	}
	switch {
	case s.Value != nil:
		out.ValueDoc = expression.Doc{Format: expression.FormatJSON, Type: s.Value.Type()}
	case s.Text:
		out.ValueDoc = expression.Doc{Format: expression.FormatString}
	}
	if t.Connector.Set {
		out.Connector = &Connector{Name: t.Connector.Value, Config: &t.Config,
			Pos: t.Connector.Pos}
		out.Known = s.Connector != nil
		out.Exact = out.Known && s.Connector.Exact
	}
	b.plan.Sinks = append(b.plan.Sinks, out)
}
