package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Wanted is what the operator asked of a pipeline.
type Wanted string

// The wanted states.
const (
	WantRunning Wanted = "running"
	WantStopped Wanted = "stopped"
)

// Revision is one version of a pipeline as it was applied.
type Revision struct {
	// Name of the pipeline, unique in the cluster.
	Name string `json:"name"`
	// Number of the revision, from 1.
	Number int `json:"revision"`
	// Text is the YAML as it was applied, references unresolved.
	Text string `json:"text"`
	// File the text came from, for messages.
	File string `json:"file"`
	// Dir is what relative paths in the text start from.
	Dir string `json:"dir"`
	// Vars given with --var.
	Vars map[string]string `json:"vars,omitempty"`
	// Wanted tells whether it should run.
	Wanted Wanted `json:"wanted"`
	// Replay is set on shadow runs.
	Replay *Replay `json:"replay,omitempty"`
	// AppliedAt is the instant of Apply, in UTC.
	AppliedAt time.Time `json:"applied_at"`
	// ID tells two writers of the same number apart.
	ID string `json:"id"`
}

// Hash identifies what would run: text, variables and replay, not who applied it or when.
func (r Revision) Hash() string {
	identity := r
	identity.Number, identity.ID, identity.Wanted = 0, "", ""
	identity.AppliedAt = time.Time{}
	data, err := json.Marshal(identity)
	if err != nil { // a struct of strings and integers always encodes
		panic(fmt.Sprintf("invariant: revision encodes: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Replay describes a shadow run over a fixed range of the inputs of another pipeline.
type Replay struct {
	// Of is the pipeline that is replayed, Revision its version.
	Of       string `json:"of"`
	Revision int    `json:"of_revision"`
	// Ranges per input topic and partition: half-open offsets.
	Ranges map[string]map[int32]Span `json:"ranges"`
	// Prefix of the shadow outputs' names.
	Prefix string `json:"prefix"`
}

// Span is a half-open range of offsets.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// State is how a pipeline does.
type State string

// The states of a pipeline.
const (
	Starting State = "starting" // state is restored, nothing is read yet
	Running  State = "running"
	Done     State = "done"    // bounded inputs are read and processed
	Stopped  State = "stopped" // by an operator
	Failed   State = "failed"  // see Error; the position is kept
	// Restarting is Failed by something that may pass, such as a full disk: it is tried again.
	Restarting State = "restarting"
)

// Status is what a worker reports about one pipeline.
type Status struct {
	Name     string `json:"name"`
	Revision int    `json:"revision"`
	State    State  `json:"state"`
	// Error tells why it failed, or why a newer revision was refused.
	Error string `json:"error,omitempty"`
	// At is when this was written, in UTC.
	At time.Time `json:"at"`
	// Guarantee per sink, as plan says it.
	Guarantees map[string]string `json:"guarantees,omitempty"`
	// Since is when this run of the pipeline began.
	Since time.Time `json:"since,omitzero"`
	// Counters of the whole pipeline since its first record: they are kept with its positions, so a
	// restart or a crash neither loses nor doubles any. Restarts, of plugins, count since Since.
	RecordsIn    int64 `json:"records_in"`
	RecordsOut   int64 `json:"records_out"`
	Late         int64 `json:"late"`
	DeadLettered int64 `json:"dead_lettered"`
	Lag          int64 `json:"lag"`
	Restarts     int64 `json:"restarts"`
	// Watermark is the event time up to which the slowest task has processed; absent before any.
	Watermark time.Time `json:"watermark,omitzero"`
	// StateBytes is the size of the state of all tasks.
	StateBytes int64 `json:"state_bytes"`
	// Sources, Steps and Sinks in the order of the file.
	Sources []SourceStatus `json:"sources,omitempty"`
	Steps   []StepStatus   `json:"steps,omitempty"`
	Sinks   []SinkStatus   `json:"sinks,omitempty"`
	Replay  *Replay        `json:"replay,omitempty"`
	// Address is where the worker that wrote this answers questions for state, host:port.
	Address string `json:"address,omitempty"`
	// Follower tells that another worker of the pipeline speaks for it; it is not written.
	Follower bool `json:"-"`
}

// SourceStatus is one input: a topic, and the connector that fills it if there is one.
type SourceStatus struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	Connector string `json:"connector,omitempty"`
	Records   int64  `json:"records"`
	Position  string `json:"position,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Ended     bool   `json:"ended"`
	Lag       int64  `json:"lag"`
	Error     string `json:"error,omitempty"`
}

// StepStatus is one step's counters.
type StepStatus struct {
	ID     string `json:"id"`
	In     int64  `json:"in"`
	Out    int64  `json:"out"`
	Late   int64  `json:"late"`
	Failed int64  `json:"failed"`
	// DeadLettered are records of the step that went to a dead-letter topic, late ones included.
	DeadLettered int64 `json:"dead_lettered"`
	// BusySeconds is the time spent in the step since Since, by all its tasks; an estimate from one
	// batch in 64.
	BusySeconds float64 `json:"busy_seconds"`
}

// SinkStatus is one output.
type SinkStatus struct {
	ID        string `json:"id"`
	Topic     string `json:"topic,omitempty"`
	Connector string `json:"connector,omitempty"`
	Records   int64  `json:"records"`
	Lag       int64  `json:"lag"`
	Error     string `json:"error,omitempty"`
}
