package runner

import (
	"cmp"
	"strings"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/task"
)

// stepNames find what of the plan a step of a topology belongs to: the streams layer runs several
// steps for one of the user's now and then, whose failures and time are that one's.
type stepNames struct {
	nodes   map[string]string // by StreamID
	users   map[string]string // by UserID: nodes of which there are several are told as one
	sources map[string]string
	// tables are the ids of tables, by those they are stored under.
	tables  map[string]string
	sinks   map[string]bool
	written map[string]string // by ID: the step or table of the file that a node belongs to
}

func (in *instance) names() *stepNames { return namesOf(in.p.plan) }

func namesOf(p *plan.Plan) *stepNames {
	n := &stepNames{nodes: map[string]string{}, users: map[string]string{},
		sources: map[string]string{}, tables: map[string]string{}, sinks: map[string]bool{},
		written: map[string]string{}}
	for _, node := range p.Nodes {
		n.nodes[node.StreamID()] = node.ID
		n.users[node.UserID()] = node.ID
		n.written[node.ID] = node.UserID()
	}
	for _, s := range p.Sources {
		n.sources[s.StreamID()] = s.ID
	}
	for _, t := range p.Tables {
		n.tables[t.StreamID()] = t.ID
	}
	for _, s := range p.Sinks {
		n.sinks[s.ID] = true
	}
	return n
}

// add counts a step of a task where it belongs.
func (n *stepNames) add(row *deploy.TaskStatus, step task.StepStats, stores map[string]int64) {
	base, part, isPart := strings.Cut(step.Step, ":")
	if _, whole := n.nodes[step.Step]; whole { // a part of a join that the plan shows
		base, isPart = step.Step, false
	}
	one := stepStatus(step, stores)
	switch {
	case isPart && n.sinks[base] && (part == "out" || part == "sink"):
		one.ID = base
		if part == "out" {
			one.Out, one.Work.Out = 0, 0
		} else {
			one.In, one.Work.In = 0, 0
		}
		row.Sinks = addStep(row.Sinks, one)
	case n.sources[base] != "" && step.Kind == "source":
		one.ID = n.sources[base]
		row.Sources = addStep(row.Sources, one)
	default:
		one.ID = n.of(step.Step)
		_, whole := n.nodes[base]
		if isPart || !whole || step.Kind == "source" { // not what goes in and out of the step itself
			one.In, one.Out, one.Work.In, one.Work.Out = 0, 0, 0, 0
		}
		row.Steps = addStep(row.Steps, one)
	}
}

// of is what the user calls a step: the node it belongs to, or the source, table or sink.
func (n *stepNames) of(step string) string {
	if id, ok := n.nodes[step]; ok { // a part of a join that the plan shows is a node, too
		return id
	}
	base, _, _ := strings.Cut(step, ":")
	if n.sinks[base] {
		return base
	}
	for _, id := range []string{n.sources[base], n.nodes[base],
		n.nodes[strings.TrimSuffix(base, "-repartition")], n.users[base], n.tables[base]} {
		if id != "" {
			return id
		}
	}
	return base // a table: only its failures are told
}

// inFile is what the file calls a step now, also where it belongs to one that was renamed.
func (n *stepNames) inFile(step string) string {
	id := n.of(step)
	return cmp.Or(n.written[id], id)
}

func stepStatus(step task.StepStats, stores map[string]int64) deploy.StepStatus {
	w := step.Work
	one := deploy.StepStatus{In: step.In.Load(), Out: step.Out.Load(), Late: step.Late.Load(),
		Failed: step.Errors.Load(), DeadLettered: step.DeadLetters.Load(),
		BusySeconds: w.Busy.Seconds(),
		Work: deploy.Work{In: w.In, Out: w.Out, Late: w.Late, Failed: w.Errors,
			DeadLettered: w.DeadLetters, Busy: w.Busy}}
	for _, store := range step.Stores {
		one.StateBytes += stores[store]
	}
	return one
}

// addStep adds a row to that of the same id, or as a new one.
func addStep(rows []deploy.StepStatus, one deploy.StepStatus) []deploy.StepStatus {
	for i := range rows {
		r := &rows[i]
		if r.ID != one.ID {
			continue
		}
		r.In += one.In
		r.Out += one.Out
		r.Late += one.Late
		r.Failed += one.Failed
		r.DeadLettered += one.DeadLettered
		r.BusySeconds += one.BusySeconds
		r.StateBytes += one.StateBytes
		r.Work = r.Work.Plus(one.Work)
		return rows
	}
	return append(rows, one)
}
