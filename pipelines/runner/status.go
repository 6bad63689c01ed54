package runner

import (
	"time"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
)

// Status adds up what the parts of the run count. Its State is Starting until they are there. Of
// several workers each tells its tasks, and one of them what the connectors count.
func (in *instance) Status() deploy.Status {
	in.mu.Lock()
	worker, ingests, outputs, procs := in.mu.worker, in.mu.ingests, in.mu.outputs, in.mu.procs
	follower := in.shared() && !in.mu.leads
	in.mu.Unlock()
	st := deploy.Status{Guarantees: map[string]string{}, State: deploy.Running, Since: in.since,
		MemoryLimit: in.runner.opts.StateMemory,
		Worker:      in.runner.opts.Instance, Follower: follower, Address: in.runner.opts.Address()}
	for _, s := range in.p.plan.Sinks {
		st.Guarantees[s.ID] = s.Guarantee
	}
	if worker == nil {
		st.State = deploy.Starting
		return st
	}
	st.Restarts = procs.restarts()
	now := worker.Status()
	if follower {
		ingests, outputs = nil, nil
	}
	if !in.opened(now, ingests, outputs) {
		st.State = deploy.Starting
	}
	in.sourceStatus(&st, ingests)
	for _, n := range in.p.plan.Nodes {
		st.Steps = append(st.Steps, deploy.StepStatus{ID: n.ID})
	}
	in.sinkStatus(&st, outputs)
	st.Tasks = in.taskStatus(now)
	in.troubles(&st, now)
	if in.shared() {
		return st
	}
	return st.Sum()
}

// opened tells whether every part of the run has begun: tasks have their state, and connectors are
// open.
func (in *instance) opened(w task.Status, ingests []*ingest, outputs []*output) bool {
	for _, t := range w.Tasks {
		elsewhere := in.shared() && (t.Phase == task.Waiting || t.Phase == task.Standby)
		if t.Inputs == nil && !elsewhere {
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

// sourceStatus tells what connectors have read; the tasks tell the rest.
func (in *instance) sourceStatus(st *deploy.Status, ingests []*ingest) {
	byID := map[string]*ingest{}
	for _, g := range ingests {
		byID[g.opts.ID] = g
	}
	for _, s := range in.p.plan.Sources {
		row := deploy.SourceStatus{ID: s.ID, Topic: s.Topic, Table: s.TableOnly,
			IdleAfterSeconds: s.IdleAfter.Seconds()}
		if g := byID[s.ID]; g != nil {
			g.mu.Lock()
			row.Records, row.Position, row.Ended, row.Error =
				g.mu.read, g.mu.position, g.mu.ended, g.mu.err
			row.DeadLettered = g.mu.dead
			g.mu.Unlock()
			row.Connector = s.Connector.Name
		}
		st.Sources = append(st.Sources, row)
	}
}

// sinkStatus tells what connectors have written.
func (in *instance) sinkStatus(st *deploy.Status, outputs []*output) {
	byID := map[string]*output{}
	for _, o := range outputs {
		byID[o.opts.ID] = o
	}
	for _, s := range in.p.plan.Sinks {
		row := deploy.SinkStatus{ID: s.ID, Topic: s.Topic}
		if o := byID[s.ID]; o != nil {
			row.Connector = s.Connector.Name
			row.Records, row.DeadLettered = o.written.Load(), o.deadLettered.Load()
			o.mu.Lock()
			row.Lag, row.Error = o.mu.lag, o.mu.err
			o.mu.Unlock()
		}
		st.Sinks = append(st.Sinks, row)
	}
}

// taskStatus tells of the tasks that run here or did.
func (in *instance) taskStatus(w task.Status) []deploy.TaskStatus {
	var rows []deploy.TaskStatus
	names := in.names()
	now := in.runner.opts.Now().UTC()
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, t := range w.Tasks {
		row := deploy.TaskStatus{ID: t.ID(), Phase: string(t.Phase), At: now,
			Watermark: eventTime(t.StreamTime), StateBytes: t.StateBytes, Here: true, Held: t.Held,
			Restored: t.Restored, ToRestore: t.ToRestore,
			Memory: deploy.StateMemory{DirtyBytes: t.Memory.Dirty, CachedBytes: t.Memory.Cached,
				Evicted: t.Memory.Evicted}}
		switch {
		case t.Trouble.Is():
			row.Trouble = taskTrouble(t)
		case t.Unfiled.Is():
			row.Trouble = in.unfiled(t)
		}
		if t.Phase == task.Running || t.Phase == task.Done {
			row.Restored, row.ToRestore = 0, 0
		}
		for _, input := range t.Inputs {
			row.Inputs = append(row.Inputs, deploy.InputStatus{Topic: input.Topic,
				Partition: input.Partition, Position: input.Position, End: input.End, Lag: input.Lag,
				Watermark: eventTime(input.Watermark), Awaited: input.Awaited,
				Writers: input.Writers, Seen: input.Seen})
		}
		for _, step := range t.Steps {
			names.add(&row, step, t.Stores)
		}
		switch t.Phase {
		case task.Waiting, task.Standby, task.Stopped, task.Failed:
			if !in.shared() {
				break
			}
			left, was := in.mu.left[t.Name]
			if !was && t.Inputs == nil {
				continue // never was here
			}
			if was {
				row.At = left
			}
			row.Here = false
		}
		if in.mu.left == nil {
			in.mu.left = map[string]time.Time{}
		}
		in.mu.left[t.Name] = row.At
		rows = append(rows, row)
	}
	return rows
}

// eventTime is ms since 1970 as a time, the zero one where there is none.
func eventTime(ms int64) time.Time {
	if ms == operator.NoTime || ms == operator.EndOfTime {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
