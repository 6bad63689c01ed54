package deploy

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Wait is an input partition without which records that were read already cannot be put in order.
type Wait struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Source is the source or table that reads the topic, IdleAfterSeconds its idle_after:.
	Source           string  `json:"source,omitempty"`
	IdleAfterSeconds float64 `json:"idle_after_seconds,omitempty"`
	// Watermark is the event time of the partition; absent before its first record.
	Watermark time.Time `json:"watermark,omitzero"`
	// Seen is when its last record came, or the run began.
	Seen time.Time `json:"seen,omitzero"`
	// Steps, and sinks without one, are what waits.
	Steps []string `json:"steps"`
}

// waits finds the partitions that hold up tasks with records. Of a topic that tasks of the pipeline
// fill, these are what those tasks wait for.
func (st *Status) waits() (list []Wait) {
	byID := map[string]*TaskStatus{}
	for i := range st.Tasks {
		byID[st.Tasks[i].ID] = &st.Tasks[i]
	}
	for i := range st.Tasks {
		t := &st.Tasks[i]
		if !t.Held || t.Phase != "running" {
			continue
		}
		for _, in := range awaited(byID, t, map[string]bool{}) {
			at := slices.IndexFunc(list, func(w Wait) bool {
				return w.Topic == in.Topic && w.Partition == in.Partition
			})
			if at < 0 {
				at = len(list)
				list = append(list, st.waitFor(in))
			}
			list[at].add(t)
		}
	}
	slices.SortFunc(list, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return list
}

func (st *Status) waitFor(in InputStatus) Wait {
	w := Wait{Topic: in.Topic, Partition: in.Partition, Watermark: in.Watermark, Seen: in.Seen}
	if w.Seen.IsZero() {
		w.Seen = st.Since // nothing was processed since
	}
	for _, s := range st.Sources {
		if s.Topic == in.Topic {
			w.Source, w.IdleAfterSeconds = s.ID, s.IdleAfterSeconds
		}
	}
	return w
}

// add notes what of a task waits.
func (w *Wait) add(t *TaskStatus) {
	rows := t.Steps
	if len(rows) == 0 {
		rows = t.Sinks
	}
	for _, row := range rows {
		id, _, _ := strings.Cut(row.ID, ".") // parts of a step are told as the step
		if !slices.Contains(w.Steps, id) {
			w.Steps = append(w.Steps, id)
		}
	}
	if len(rows) == 0 {
		w.Steps = append(w.Steps, t.ID)
	}
}

// awaited are the inputs from outside that a task waits for, directly or by tasks that write for
// it.
func awaited(
	byID map[string]*TaskStatus, t *TaskStatus, seen map[string]bool,
) (list []InputStatus) {
	if t == nil || seen[t.ID] {
		return nil
	}
	seen[t.ID] = true
	for _, in := range t.Inputs {
		switch {
		case !in.Awaited:
		case len(in.Writers) == 0:
			list = append(list, in)
		default:
			for _, w := range in.Writers {
				list = append(list, awaited(byID, byID[w], seen)...)
			}
		}
	}
	return list
}
