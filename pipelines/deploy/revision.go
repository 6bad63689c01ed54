package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
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
	// Includes are the texts of the files that the pipeline includes, by path.
	Includes map[string]string `json:"includes,omitempty"`
	// Vars given with --var.
	Vars map[string]string `json:"vars,omitempty"`
	// Matched are the topics that the patterns of sources have found, by source. A worker applies
	// the revision again with those that come later, so that all workers read the same.
	Matched map[string][]string `json:"matched,omitempty"`
	// Wanted tells whether it should run.
	Wanted Wanted `json:"wanted"`
	// Replay is set on shadow runs.
	Replay *Replay `json:"replay,omitempty"`
	// Generation counts how often the pipeline was begun anew without its state. Later revisions
	// keep it.
	Generation int `json:"generation,omitempty"`
	// Start is where a generation begins to read its topics; partitions that are not in it are read
	// from their beginning. Later revisions keep it.
	Start map[string]map[int32]int64 `json:"start,omitempty"`
	// SkipLost goes on behind records that were deleted before they were read.
	SkipLost bool `json:"skip_lost,omitempty"`
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

// App names what belongs to the tasks of a generation alone: internal topics, transactions, state
// files. So a generation never meets what an earlier one has left.
func (r Revision) App() string { return AppOf(r.Name, r.Generation) }

// AppOf is Revision.App of a generation.
func AppOf(name string, generation int) string {
	if generation == 0 {
		return name
	}
	return name + "." + strconv.Itoa(generation) // names of pipelines have no dots
}

// Replay describes a shadow run over a fixed range of the inputs of another pipeline.
type Replay struct {
	// Of is the pipeline that is replayed, Revision its version.
	Of       string `json:"of"`
	Revision int    `json:"of_revision"`
	// App is that of the revision; empty is Of.
	App string `json:"of_app,omitempty"`
	// Ranges per input topic and partition: half-open offsets.
	Ranges map[string]map[int32]Span `json:"ranges"`
	// Rate is how many records of the inputs it reads in a second at most; 0 is any.
	Rate int64 `json:"rate,omitempty"`
	// Forked: it begins with the state the pipeline had at the start of the ranges, and not with none.
	Forked bool `json:"forked,omitempty"`
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
	// Degraded is Running, but something has not gone on for a while, such as a broker that does not
	// answer: see Trouble. It becomes Running by itself when that is over.
	Degraded State = "degraded"
)

// Trouble is what keeps a pipeline from going on.
type Trouble struct {
	// Since is when it began; Error is the last one.
	Since time.Time `json:"since"`
	Error string    `json:"error"`
	// Do is the way back.
	Do string `json:"do"`
}

// Status is what a worker reports about one pipeline.
type Status struct {
	Name     string `json:"name"`
	Revision int    `json:"revision"`
	State    State  `json:"state"`
	// Error tells why it failed, or why a newer revision was refused.
	Error string `json:"error,omitempty"`
	// Trouble is set while it is Degraded, while it is Starting and something keeps it from that, and
	// while it is Restarting.
	Trouble *Trouble `json:"trouble,omitempty"`
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
	// LagSeconds is how far the watermark is behind the time of reading; it is not written.
	LagSeconds float64 `json:"watermark_lag_seconds,omitempty"`
	// StateBytes is the size of the state of all tasks.
	StateBytes int64 `json:"state_bytes"`
	// Memory is what of it is in memory; MemoryLimit is that of all pipelines of the process.
	Memory      StateMemory `json:"state_memory,omitzero"`
	MemoryLimit int64       `json:"state_memory_limit_bytes,omitempty"`
	// Sources, Steps and Sinks in the order of the file.
	Sources []SourceStatus `json:"sources,omitempty"`
	Steps   []StepStatus   `json:"steps,omitempty"`
	Sinks   []SinkStatus   `json:"sinks,omitempty"`
	// Tasks tell where each of them is. Where one process runs all of them, their counters are in the
	// sums only.
	Tasks []TaskStatus `json:"tasks,omitempty"`
	// Waits are the input partitions that hold records of others up.
	Waits  []Wait  `json:"waits,omitempty"`
	Replay *Replay `json:"replay,omitempty"`
	// Worker is the one of several that speaks for the pipeline. Then Tasks are its own, and the sums
	// wait for those of the others (Total).
	Worker string `json:"worker,omitempty"`
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
	// Table: the topic is a table's alone, so its records are no input of the pipeline.
	Table    bool   `json:"table,omitempty"`
	Records  int64  `json:"records"`
	Position string `json:"position,omitempty"`
	Total    int64  `json:"total,omitempty"`
	Ended    bool   `json:"ended"`
	Lag      int64  `json:"lag"`
	// DeadLettered are records that could not be read.
	DeadLettered int64 `json:"dead_lettered"`
	// Watermark is the event time of the slowest partition, LagSeconds as in Status.
	Watermark  time.Time `json:"watermark,omitzero"`
	LagSeconds float64   `json:"watermark_lag_seconds,omitempty"`
	Error      string    `json:"error,omitempty"`
	// IdleAfterSeconds without records let a partition hold up nobody; 0 is never.
	IdleAfterSeconds float64 `json:"idle_after_seconds,omitempty"`
	// read are the records that the tasks have read.
	read int64
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
	// StateBytes is about what the step keeps, Watermark the event time up to which its slowest task
	// has processed, LagSeconds as in Status.
	StateBytes int64     `json:"state_bytes"`
	Watermark  time.Time `json:"watermark,omitzero"`
	LagSeconds float64   `json:"watermark_lag_seconds,omitempty"`
	// Work is what this process did of it; it is not written.
	Work Work `json:"-"`
}

// SinkStatus is one output.
type SinkStatus struct {
	ID        string `json:"id"`
	Topic     string `json:"topic,omitempty"`
	Connector string `json:"connector,omitempty"`
	Records   int64  `json:"records"`
	Lag       int64  `json:"lag"`
	// DeadLettered are records that could not be written, BusySeconds and the rest as in StepStatus.
	DeadLettered int64     `json:"dead_lettered"`
	BusySeconds  float64   `json:"busy_seconds"`
	Watermark    time.Time `json:"watermark,omitzero"`
	LagSeconds   float64   `json:"watermark_lag_seconds,omitempty"`
	Error        string    `json:"error,omitempty"`
	// wrote are the records that the tasks have written.
	wrote int64
}
