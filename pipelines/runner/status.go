package runner

import (
	"slices"
	"time"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
)

// Status adds up what the parts of the run count. Its State is Starting until they are there.
func (in *instance) Status() deploy.Status {
	in.mu.Lock()
	worker, ingests, outputs, procs := in.mu.worker, in.mu.ingests, in.mu.outputs, in.mu.procs
	follower := in.shared() && !in.mu.leads
	in.mu.Unlock()
	st := deploy.Status{Guarantees: map[string]string{}, State: deploy.Running, Since: in.since,
		Follower: follower, Address: in.runner.opts.Address()}
	for _, s := range in.p.plan.Sinks {
		st.Guarantees[s.ID] = s.Guarantee
	}
	if worker == nil {
		st.State = deploy.Starting
		return st
	}
	st.Restarts = procs.restarts()
	now := worker.Status()
	if in.shared() {
		now.Tasks = slices.DeleteFunc(now.Tasks, func(t task.TaskStatus) bool {
			return t.Phase == task.Waiting || t.Phase == task.Standby
		})
	}
	if follower {
		ingests, outputs = nil, nil
	}
	if !opened(now, ingests, outputs) {
		st.State = deploy.Starting
	}
	tally := newTally(now)
	in.sourceStatus(&st, tally, ingests)
	in.stepStatus(&st, tally)
	in.sinkStatus(&st, tally, outputs)
	st.DeadLettered = tally.dead
	st.Late = tally.late
	st.Watermark, st.StateBytes = watermark(now), stateBytes(now)
	for _, g := range ingests {
		g.mu.Lock()
		st.DeadLettered += g.mu.dead
		g.mu.Unlock()
	}
	for _, o := range outputs {
		st.DeadLettered += o.deadLettered.Load()
	}
	return st
}

// opened tells whether every part of the run has begun: tasks have their state, and connectors are
// open.
func opened(w task.Status, ingests []*ingest, outputs []*output) bool {
	for _, t := range w.Tasks {
		if t.Inputs == nil {
			return false
		}
	}
	for _, g := range ingests {
		if !g.opened.Load() {
			return false
		}
	}
	for _, o := range outputs {
		if !o.opened.Load() {
			return false
		}
	}
	return true
}

// tally is the counters of all tasks, added up by step.
type tally struct {
	steps      map[string]deploy.StepStatus
	lag        map[string]int64 // by topic
	dead, late int64
}

func newTally(w task.Status) *tally {
	t := &tally{steps: map[string]deploy.StepStatus{}, lag: map[string]int64{}}
	for _, one := range w.Tasks {
		for _, step := range one.Steps {
			sum := t.steps[step.Step]
			sum.In += step.In.Load()
			sum.Out += step.Out.Load()
			sum.Late += step.Late.Load()
			sum.Failed += step.Errors.Load()
			sum.DeadLettered += step.DeadLetters.Load()
			sum.BusySeconds += float64(step.Busy.Load()) / 1e9
			t.steps[step.Step] = sum
			t.dead += step.DeadLetters.Load()
			t.late += step.Late.Load()
		}
		for _, input := range one.Inputs {
			t.lag[input.Topic] += input.Lag
		}
	}
	return t
}

// watermark is the time of the slowest task that has any.
func watermark(w task.Status) time.Time {
	least := operator.EndOfTime
	for _, t := range w.Tasks {
		if t.StreamTime != operator.NoTime {
			least = min(least, t.StreamTime)
		}
	}
	if least == operator.EndOfTime {
		return time.Time{}
	}
	return time.UnixMilli(least).UTC()
}

func stateBytes(w task.Status) (n int64) {
	for _, t := range w.Tasks {
		n += t.StateBytes
	}
	return n
}

func (in *instance) sourceStatus(st *deploy.Status, t *tally, ingests []*ingest) {
	byID := map[string]*ingest{}
	for _, g := range ingests {
		byID[g.opts.ID] = g
	}
	for _, s := range in.p.plan.Sources {
		row := deploy.SourceStatus{ID: s.ID, Topic: s.Topic, Lag: t.lag[s.Topic]}
		if !s.TableOnly {
			st.RecordsIn += t.steps[s.ID].In
			row.Records = t.steps[s.ID].In
			st.Lag += row.Lag
		}
		if g := byID[s.ID]; g != nil {
			g.mu.Lock()
			row.Records, row.Position, row.Ended, row.Error =
				g.mu.read, g.mu.position, g.mu.ended, g.mu.err
			g.mu.Unlock()
			row.Connector = s.Connector.Name
		}
		st.Sources = append(st.Sources, row)
	}
}

func (in *instance) stepStatus(st *deploy.Status, t *tally) {
	for _, n := range in.p.plan.Nodes {
		row := t.steps[n.StreamID()]
		row.ID = n.ID
		st.Steps = append(st.Steps, row)
	}
}

func (in *instance) sinkStatus(st *deploy.Status, t *tally, outputs []*output) {
	byID := map[string]*output{}
	for _, o := range outputs {
		byID[o.opts.ID] = o
	}
	for _, s := range in.p.plan.Sinks {
		row := deploy.SinkStatus{ID: s.ID, Topic: s.Topic, Records: t.steps[s.ID+":sink"].Out}
		st.RecordsOut += row.Records
		if o := byID[s.ID]; o != nil {
			row.Connector = s.Connector.Name
			row.Records = o.written.Load()
			o.mu.Lock()
			row.Lag, row.Error = o.mu.lag, o.mu.err
			o.mu.Unlock()
		}
		st.Sinks = append(st.Sinks, row)
	}
}
