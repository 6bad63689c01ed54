package deploy

import (
	"slices"
	"strings"
	"time"
)

// TaskStatus is one task of a pipeline: what one of its parts does with one partition. Its counters
// are those of the task since its first record, whoever ran it.
type TaskStatus struct {
	// ID is SUB.PARTITION.
	ID string `json:"id"`
	// Worker runs it; "" where one process runs all.
	Worker string `json:"worker,omitempty"`
	Phase  string `json:"phase"`
	// At is when this was seen, or when the worker gave the task up.
	At time.Time `json:"at,omitzero"`
	// Watermark is the event time up to which everything is processed; absent before any.
	Watermark time.Time `json:"watermark,omitzero"`
	// LagSeconds is how far the watermark is behind the time of reading; it is not written.
	LagSeconds float64 `json:"watermark_lag_seconds,omitempty"`
	StateBytes int64   `json:"state_bytes"`
	// Memory is what of it is in memory.
	Memory StateMemory `json:"state_memory,omitzero"`
	// Held: records that were read wait for an input, see InputStatus.Awaited.
	Held bool `json:"held,omitempty"`
	// Restored of ToRestore changelog records were read when the task was opened.
	Restored  int64 `json:"restored,omitempty"`
	ToRestore int64 `json:"to_restore,omitempty"`
	// Trouble is why the task is opened again and again, while it is.
	Trouble *Trouble      `json:"trouble,omitempty"`
	Inputs  []InputStatus `json:"inputs,omitempty"`
	// Sources, Steps and Sinks are what the task adds to those of the pipeline.
	Sources []StepStatus `json:"sources,omitempty"`
	Steps   []StepStatus `json:"steps,omitempty"`
	Sinks   []StepStatus `json:"sinks,omitempty"`
	// Here tells that the task runs in this process; it is not written.
	Here bool `json:"-"`
}

// StateMemory is what state takes in memory. Evicted counts rows that were forgotten to stay within
// the limit, since the tasks were opened: the next read of them is of the file.
type StateMemory struct {
	DirtyBytes  int64 `json:"dirty_bytes"`
	CachedBytes int64 `json:"cached_bytes"`
	Evicted     int64 `json:"evicted_rows"`
}

// InputStatus is one partition that a task reads.
type InputStatus struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Position is the first offset not processed, End that of the log, Lag what is between them.
	Position int64 `json:"position"`
	End      int64 `json:"end"`
	Lag      int64 `json:"lag"`
	// Watermark is the event time of the partition, LagSeconds as in TaskStatus.
	Watermark  time.Time `json:"watermark,omitzero"`
	LagSeconds float64   `json:"watermark_lag_seconds,omitempty"`
	// Awaited: the partition is read to its end and is the slowest of the task. Writers are the tasks
	// that fill it and are waited for. Seen is when its last record came, or the run began.
	Awaited bool      `json:"awaited,omitempty"`
	Writers []string  `json:"awaited_writers,omitempty"`
	Seen    time.Time `json:"seen,omitzero"`
}

// Work is what a step did in this process, from zero.
type Work struct {
	In, Out, Late, Failed, DeadLettered int64
	Busy                                time.Duration
}

// Part is what one of several workers says of the tasks it runs, or has run.
type Part struct {
	Name     string       `json:"name"`
	Worker   string       `json:"worker"`
	Revision int          `json:"revision"`
	At       time.Time    `json:"at"`
	HTTP     string       `json:"http,omitempty"`
	Tasks    []TaskStatus `json:"tasks"`
}

// Total is the status with what the tasks count. Of a task that several workers tell of, the one
// counts that had it last.
func (st Status) Total(parts []Part) Status {
	byID := map[string]TaskStatus{}
	for _, p := range parts {
		if p.Revision != newest(parts) {
			continue // of steps that may be others by now
		}
		for _, t := range p.Tasks {
			t.Worker = p.Worker
			byID[t.ID] = later(byID[t.ID], t)
		}
	}
	st.Tasks = nil
	for _, t := range byID {
		st.Tasks = append(st.Tasks, t)
	}
	slices.SortFunc(st.Tasks, func(a, b TaskStatus) int { return strings.Compare(a.ID, b.ID) })
	st.settle()
	return st.Sum()
}

// settle tells by the tasks whether a pipeline that several workers share runs: the one that speaks
// for it may have been stopped alone.
func (st *Status) settle() {
	if st.State != Running && st.State != Stopped && st.State != Degraded || len(st.Tasks) == 0 {
		return
	}
	working := st.State
	if working == Stopped {
		working = Running
	}
	st.State = Stopped
	for _, t := range st.Tasks {
		if t.Phase != "stopped" {
			st.State = working
		}
	}
	if st.State == Stopped {
		st.Trouble = nil
		return
	}
	for _, t := range st.Tasks {
		if t.Trouble != nil && (st.Trouble == nil || t.Trouble.Since.Before(st.Trouble.Since)) {
			st.State, st.Trouble = Degraded, t.Trouble
		}
	}
}

func newest(parts []Part) (revision int) {
	for _, p := range parts {
		revision = max(revision, p.Revision)
	}
	return revision
}

// later is the one of two rows of a task that was seen later. One that is being opened has no
// counters yet, so that of the worker before it lends them.
func later(a, b TaskStatus) TaskStatus {
	if b.At.Before(a.At) {
		a, b = b, a
	}
	if len(b.Steps)+len(b.Sources)+len(b.Sinks) == 0 {
		b.Inputs, b.Sources, b.Steps, b.Sinks = a.Inputs, a.Sources, a.Steps, a.Sinks
		b.Watermark, b.StateBytes, b.Memory = a.Watermark, a.StateBytes, a.Memory
	}
	return b
}

// Sum adds what the tasks count to what the connectors count, which is all that st has of sources
// and sinks. Steps are those of the tasks alone.
func (st Status) Sum() Status {
	st.Sources, st.Sinks = slices.Clone(st.Sources), slices.Clone(st.Sinks)
	st.Steps = slices.Clone(st.Steps)
	st.Watermark, st.StateBytes, st.Memory = time.Time{}, 0, StateMemory{}
	for _, t := range st.Tasks {
		st.Watermark = earliest(st.Watermark, t.Watermark)
		st.StateBytes += t.StateBytes
		st.Memory.DirtyBytes += t.Memory.DirtyBytes
		st.Memory.CachedBytes += t.Memory.CachedBytes
		st.Memory.Evicted += t.Memory.Evicted
		for _, row := range t.Sources {
			st.addSource(t, row)
		}
		for _, row := range t.Steps {
			if i := slices.IndexFunc(st.Steps, func(s StepStatus) bool { return s.ID == row.ID }); i >= 0 {
				st.Steps[i].add(t, row)
			}
			st.Late += row.Late
			st.DeadLettered += row.DeadLettered
		}
		for _, row := range t.Sinks {
			st.addSink(t, row)
		}
	}
	for i := range st.Sources {
		s := &st.Sources[i]
		for _, t := range st.Tasks {
			for _, in := range t.Inputs {
				if in.Topic == s.Topic {
					s.Lag += in.Lag
					s.Watermark = earliest(s.Watermark, in.Watermark)
				}
			}
		}
		st.DeadLettered += s.DeadLettered
		if !s.Table {
			st.RecordsIn += s.read
			st.Lag += s.Lag
		}
	}
	for i := range st.Sinks {
		st.RecordsOut += st.Sinks[i].wrote
		st.DeadLettered += st.Sinks[i].DeadLettered
	}
	st.Waits = st.waits()
	return st
}

func (st *Status) addSource(t TaskStatus, row StepStatus) {
	for i := range st.Sources {
		s := &st.Sources[i]
		if s.ID != row.ID {
			continue
		}
		s.read += row.In
		if s.Connector == "" && !s.Table {
			s.Records += row.In
		}
		s.DeadLettered += row.DeadLettered
	}
}

func (st *Status) addSink(t TaskStatus, row StepStatus) {
	for i := range st.Sinks {
		s := &st.Sinks[i]
		if s.ID != row.ID {
			continue
		}
		s.wrote += row.Out
		if s.Connector == "" {
			s.Records += row.Out
		}
		s.DeadLettered += row.DeadLettered
		s.BusySeconds += row.BusySeconds
		s.Watermark = earliest(s.Watermark, t.Watermark)
	}
}

// add counts a task's part of the step.
func (s *StepStatus) add(t TaskStatus, row StepStatus) {
	s.In += row.In
	s.Out += row.Out
	s.Late += row.Late
	s.Failed += row.Failed
	s.DeadLettered += row.DeadLettered
	s.BusySeconds += row.BusySeconds
	s.StateBytes += row.StateBytes
	s.Watermark = earliest(s.Watermark, t.Watermark)
}

// earliest is the lesser of two times, of which the zero one is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// lagging tells how far everything is behind at a time.
func (st *Status) lagging(now time.Time) {
	behind := func(watermark time.Time) float64 {
		if watermark.IsZero() {
			return 0
		}
		return now.Sub(watermark).Seconds()
	}
	st.LagSeconds = behind(st.Watermark)
	for i := range st.Sources {
		st.Sources[i].LagSeconds = behind(st.Sources[i].Watermark)
	}
	for i := range st.Steps {
		st.Steps[i].LagSeconds = behind(st.Steps[i].Watermark)
	}
	for i := range st.Sinks {
		st.Sinks[i].LagSeconds = behind(st.Sinks[i].Watermark)
	}
	for i := range st.Tasks {
		t := &st.Tasks[i]
		t.LagSeconds = behind(t.Watermark)
		for j := range t.Inputs {
			t.Inputs[j].LagSeconds = behind(t.Inputs[j].Watermark)
		}
	}
}

// briefTasks are the tasks without what their steps count, which the sums have already.
func briefTasks(tasks []TaskStatus) []TaskStatus {
	brief := slices.Clone(tasks)
	for i := range brief {
		brief[i].Sources, brief[i].Steps, brief[i].Sinks = nil, nil, nil
		brief[i].At = time.Time{} // that of the status
	}
	return brief
}

// Plus is the work of both.
func (w Work) Plus(o Work) Work {
	return Work{In: w.In + o.In, Out: w.Out + o.Out, Late: w.Late + o.Late,
		Failed: w.Failed + o.Failed, DeadLettered: w.DeadLettered + o.DeadLettered,
		Busy: w.Busy + o.Busy}
}
