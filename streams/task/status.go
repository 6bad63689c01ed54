package task

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// Phase is what a task is doing.
type Phase string

// Phases of a task, in their usual order.
const (
	// Waiting: not opened yet.
	Waiting Phase = "waiting"
	// Restoring: the state is being brought to the last commit.
	Restoring Phase = "restoring"
	// Standby: another worker runs the task, this one keeps a copy of its state.
	Standby Phase = "standby"
	// Running: reading, processing and committing.
	Running Phase = "running"
	// Done: all bounded input was processed and committed.
	Done Phase = "done"
	// Stopped: told to stop; everything processed is committed.
	Stopped Phase = "stopped"
	// Failed: stopped by an error; the position is that of the last commit.
	Failed Phase = "failed"
)

// Status is a worker at one moment.
type Status struct {
	Tasks []TaskStatus
	// Error is why the pipeline stopped, empty while it runs.
	Error string
}

// TaskStatus is one task at one moment.
type TaskStatus struct {
	// Name is <app>.<sub>.<partition>; Sub and Partition are its parts.
	Name      string
	Sub       string
	Partition int32
	Phase     Phase
	Inputs    []InputStatus
	// Processed records since the start, and their rate over the last commits.
	Processed int64
	PerSecond float64
	// Restored of ToRestore changelog records were read by the last restore.
	Restored, ToRestore int64
	// ChangelogRows written since the start.
	ChangelogRows int64
	// StreamTime of the task at its last commit, ms; operator.NoTime before anything was seen.
	StreamTime int64
	// Held: there are records that wait for an input, see InputStatus.Awaited.
	Held bool
	// StateBytes are rows in memory that are not in the state file yet, and the file. Stores tells
	// about how much of it each store takes, as it was found some seconds ago.
	StateBytes int64
	Stores     map[string]int64
	// Memory is what the state takes of the budget.
	Memory state.Memory
	// LastCommit is zero before the first.
	LastCommit time.Time
	// LastError is the last trouble, also one that did not stop the task. Trouble is that which has
	// not passed: the task was lost, and has not committed or run for a while since.
	LastError string
	Trouble   client.Trouble
	// Unfiled is since when, and why, the state file cannot be written.
	Unfiled client.Trouble
	// Steps count records per step; they move while the task runs.
	Steps []StepStats
}

// ID names the task within its pipeline.
func (t TaskStatus) ID() string { return fmt.Sprintf("%s.%d", t.Sub, t.Partition) }

// InputStatus is one input partition at the last commit.
type InputStatus struct {
	Topic     string
	Partition int32
	Table     bool
	// Position is the first offset not processed, End that of the log when last seen.
	Position, End int64
	// Lag is End - Position.
	Lag int64
	// Watermark is the time of the partition, as that of Input.
	Watermark int64
	// Awaited: the partition is read to its end and the slowest one of the task, so that records of
	// others wait for it. Writers are those of a repartition topic that are waited for.
	Awaited bool
	Writers []string
	// Seen is when the last record of the partition came, or the run began.
	Seen time.Time
}

// taskStatus is what the loop tells others.
type taskStatus struct {
	processed atomic.Int64
	rows      atomic.Int64
	// changelogEnd is the offset after the last commit known here.
	changelogEnd atomic.Int64
	// reader looks at the state file, nil while there is none here.
	reader atomic.Pointer[state.Reader]

	mu struct {
		sync.Mutex
		phase      Phase
		inputs     []InputStatus
		restored   int64
		toRestore  int64
		streamTime int64
		held       bool
		stateBytes int64
		stores     map[string]int64
		memory     state.Memory
		lastCommit time.Time
		lastError  string
		// trouble is since when the task is lost, and why; runs is since when it runs.
		trouble   client.Trouble
		unfiled   client.Trouble // as TaskStatus.Unfiled
		runs      time.Time
		perSecond float64
		atCommit  int64 // processed at the last commit
		steps     func() []StepStats
		// past is what the steps of earlier cores did.
		past map[string]Work
	}
}

func (s *taskStatus) phase(p Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.phase = p
	if p == Running {
		s.mu.runs = time.Now()
		return
	}
	s.mu.unfiled = client.Trouble{} // nothing is written here until it runs again
}

func (s *taskStatus) restore(read, of int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.restored, s.mu.toRestore = read, of
}

func (s *taskStatus) trouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lastError = err.Error()
}

// lost notes a trouble that makes the task be opened again.
func (s *taskStatus) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lastError = err.Error()
	since := time.Now()
	if s.troubleLocked(since).Is() {
		since = s.mu.trouble.Since
	}
	s.mu.trouble = client.Trouble{Since: since, Error: s.mu.lastError}
}

// A task that is lost once is open again at once, which is no trouble: it is told after a while.
// One that has nothing to commit must run for steadyFor for it to be over.
const (
	troubleAfter = 3 * time.Second
	steadyFor    = 2 * time.Second
)

// troubleLocked is the trouble that has not passed.
func (s *taskStatus) troubleLocked(now time.Time) client.Trouble {
	if s.mu.phase != Restoring && (s.mu.phase != Running || now.Sub(s.mu.runs) > steadyFor) {
		return client.Trouble{}
	}
	return s.mu.trouble
}

// lastingLocked is the trouble that is told.
func (s *taskStatus) lastingLocked(now time.Time) client.Trouble {
	if t := s.troubleLocked(now); now.Sub(t.Since) > troubleAfter {
		return t
	}
	return client.Trouble{}
}

// commit notes a commit and smooths the rate over about ten of them.
func (s *taskStatus) commit(now time.Time, since time.Duration) {
	processed := s.processed.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	rate := float64(processed-s.mu.atCommit) / max(since.Seconds(), 1e-3)
	if s.mu.lastCommit.IsZero() {
		s.mu.perSecond = rate
	}
	s.mu.perSecond += (rate - s.mu.perSecond) / 10
	s.mu.atCommit, s.mu.lastCommit = processed, now
	s.mu.trouble = client.Trouble{}
}

// report notes where the inputs are.
func (t *loop) report(inputs []Input) {
	list := make([]InputStatus, 0, len(inputs))
	for i, in := range inputs {
		known := t.inputs[i]
		st := InputStatus{
			Topic: in.Topic, Partition: in.Partition, Table: in.Kind == TableInput,
			Position: t.position(in), End: known.end, Watermark: in.Watermark,
			Seen: known.seenAt(),
		}
		st.Lag = max(0, st.End-st.Position)
		list = append(list, st)
	}
	held := t.reportAwaited(list)
	now, size, stores := t.core.StreamTime(), t.db.Size(), t.db.StoreSizes()
	t.status.mu.Lock()
	defer t.status.mu.Unlock()
	t.status.mu.inputs, t.status.mu.streamTime = list, now
	t.status.mu.memory = t.db.Memory()
	t.status.mu.stateBytes, t.status.mu.stores, t.status.mu.held = size, stores, held
}

// position is the first offset of an input that is not processed: what the core says, but not
// before where the task was told to start.
func (t *loop) position(in Input) int64 {
	at := in.Offset
	for _, p := range t.last.From {
		if p.Topic == in.Topic && p.Partition == in.Partition {
			at = max(at, p.Offset)
		}
	}
	return at
}

func (s *seat) snapshot() TaskStatus {
	s.status.mu.Lock()
	out := TaskStatus{
		Name: s.name, Sub: s.sub.Name, Partition: s.partition, Phase: s.status.mu.phase,
		Inputs: s.status.mu.inputs, PerSecond: s.status.mu.perSecond,
		Restored: s.status.mu.restored, ToRestore: s.status.mu.toRestore,
		StreamTime: s.status.mu.streamTime, LastCommit: s.status.mu.lastCommit,
		Held:      s.status.mu.held,
		LastError: s.status.mu.lastError, Trouble: s.status.lastingLocked(time.Now()),
		Unfiled:    s.status.mu.unfiled,
		StateBytes: s.status.mu.stateBytes,
		Stores:     s.status.mu.stores, Memory: s.status.mu.memory, Steps: s.status.stepsOf(),
	}
	s.status.mu.Unlock()
	out.Processed, out.ChangelogRows = s.status.processed.Load(), s.status.rows.Load()
	if out.Phase == "" {
		out.Phase = Waiting
	}
	return out
}
