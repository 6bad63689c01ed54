package task

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
)

// Options configure a Worker. Topology and Cluster are required.
type Options struct {
	// Topology to run.
	Topology *topology.Topology
	// Cluster is the log. The caller closes it after Run.
	Cluster client.Cluster
	// StateDir holds one state file per task, <StateDir>/<app>/<sub>-<partition>.db. Empty keeps
	// state in memory and restores all of it from the changelog at every start.
	StateDir string
	// Group gets the offsets of what is committed; empty is the name of the application.
	Group string
	// CommitInterval is the longest time between commits of a busy task; 0 is 200 ms. One that has
	// caught up commits after an eighth of it.
	CommitInterval time.Duration
	// CommitBytes of changed rows or outputs force a commit; 0 is 16 MiB.
	CommitBytes int64
	// InboxBytes bounds what was fetched for a task and not taken; 0 is 512 KiB.
	InboxBytes int64
	// From are the offsets a first run starts at; other partitions start at their beginning.
	From map[client.TopicPartition]int64
	// Until bounds stream inputs: nothing at or after the offset is read.
	Until map[client.TopicPartition]int64
	// Rate is how many records of sources all tasks together process in a second at most; 0 is any.
	Rate int64
	// SkipLost goes on behind records that were deleted before they were read.
	SkipLost bool
	// Decisions about idle inputs that an earlier run over the same input made (ReadDecisions), to
	// be made again.
	Decisions []Decision
	// Owns tells which tasks this worker runs, when others run the rest; nil is all of them.
	Owns func(sub string, partition int32) bool
	// Share makes this worker a member of a group that runs the tasks; nil runs them here.
	Share *Share
	// Bounded ends every stream input that is not in Until or Filling at the end its log has when
	// Run starts.
	Bounded bool
	// Filling are topics a source is still writing. A table of such a topic is ready, and a
	// stream of it ends, when EndInput was called for it and it was read up to there.
	Filling []string
	// Replication of internal topics; 0 takes the cluster's default.
	Replication int16
	// DrainTimeout bounds the last commits when Run is told to stop; 0 is 10 s.
	DrainTimeout time.Duration
	// ReadableWait bounds how long a task that is done waits until its results can be read: behind
	// the markers of its last transaction, and transactions of others; 0 is 30 s.
	ReadableWait time.Duration
	// LockWait is how long a task waits for its state file when another process has it; 0 is 5 s.
	LockWait time.Duration
	// PurgeInterval is how often records of repartition topics that nobody needs any more are
	// deleted; 0 is 30 s.
	PurgeInterval time.Duration
	// State configures the state files; Path and Identity are set by the worker.
	State state.Options
	// Logger hears of restores, stops and trouble; nil is silent.
	Logger *slog.Logger

	// paces and taps are those of the worker.
	paces *paces
	rate  *rate
	taps  *tapPoints
	// newCore replaces NewCore in tests.
	newCore func(CoreOptions) (processor, error)
	// killOnError leaves state files as a killed process would when a task fails, in tests.
	killOnError bool
	// batch is the most records of one Run of the core; 0 is 1024.
	batch int
}

func (o Options) withDefaults() Options {
	if o.Group == "" && o.Topology != nil {
		o.Group = o.Topology.App
	}
	if o.CommitInterval == 0 {
		o.CommitInterval = 200 * time.Millisecond
	}
	if o.CommitBytes == 0 {
		o.CommitBytes = 16 << 20
	}
	if o.InboxBytes == 0 {
		o.InboxBytes = 512 << 10
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 10 * time.Second
	}
	if o.ReadableWait == 0 {
		o.ReadableWait = 30 * time.Second
	}
	if o.LockWait == 0 {
		o.LockWait = 5 * time.Second
	}
	if o.PurgeInterval == 0 {
		o.PurgeInterval = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.State.Logger == nil {
		o.State.Logger = o.Logger
	}
	if o.newCore == nil {
		o.newCore = func(c CoreOptions) (processor, error) { return NewCore(c) }
	}
	if o.paces == nil {
		o.paces = &paces{}
	}
	if o.rate == nil && o.Topology != nil {
		o.rate = newRate(o.Rate, o.Topology)
	}
	if o.taps == nil {
		o.taps = &tapPoints{}
	}
	if o.batch == 0 {
		o.batch = 1024
	}
	return o
}

func (o Options) validate() error {
	var errs []error
	if o.Topology == nil {
		errs = append(errs, errors.New("worker options: no topology"))
	}
	if o.Cluster == nil {
		errs = append(errs, errors.New("worker options: no cluster"))
	}
	if o.Rate < 0 || o.CommitInterval < 0 || o.CommitBytes < 0 || o.InboxBytes < 0 ||
		o.DrainTimeout < 0 ||
		o.PurgeInterval < 0 {
		errs = append(errs, errors.New("worker options: sizes, times and the rate must not be negative"))
	}
	if o.Share != nil && o.Owns != nil {
		errs = append(errs, errors.New("worker options: Share and Owns exclude each other"))
	}
	for tp, at := range o.From {
		if end, ok := o.Until[tp]; ok && at > end {
			errs = append(errs, fmt.Errorf("worker options: %s starts at %d, after its end %d", tp,
				at, end))
		}
	}
	return errors.Join(errs...)
}
