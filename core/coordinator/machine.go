package coordinator

import (
	"context"
	"time"

	"github.com/millstream-io/millstream/core/record"
)

// Log is the topic in which the shards keep their records; shard n is partition n. The broker
// implements it over its replicas.
type Log interface {
	// Append writes recs as one batch and returns when they are durable (acks=all). It sets the
	// offsets itself. Errors: ErrNotLeader, ErrTooLarge, ErrUnknownOutcome, or any other for
	// "nothing was written". A context error counts as ErrUnknownOutcome.
	Append(ctx context.Context, partition int32, recs []record.Record) (lastOffset int64, err error)
	// Replay calls fn for every record of the partition from its start to its end at the time of
	// the call, in order; it waits for those that are appended and not durable yet. Keys and values
	// are fn's only until it returns. It returns fn's error.
	Replay(ctx context.Context, partition int32, fn func(record.Record) error) error
	// LeaderEpoch is the epoch in which this node leads the partition now, or -1.
	LeaderEpoch(partition int32) int32
}

// Ticket is the address of one waiting caller within its shard; 0 is nobody.
type Ticket uint64

// Output is an answer to one ticket.
type Output struct {
	Ticket Ticket
	Value  any
}

// Step is what a machine wants done after one input or one timer.
type Step struct {
	// Records are appended together with those of other steps, in order; all or none become durable.
	Records []record.Record
	// Outputs are delivered once Records are durable and replayed, at once if there are none.
	Outputs []Output
	// Fail is called instead of delivering Outputs when Records could not be appended. It undoes
	// volatile changes and returns the outputs to deliver. May be nil if there are no Records.
	Fail func(now time.Time, code ErrorCode) []Output
	// Again says that the input concerns state whose records are not durable yet. The machine has
	// changed nothing; the runtime appends what it has and hands the input in once more.
	Again bool
}

// Machine is the state of one shard. It is used by one goroutine only and reads no clock, disk,
// socket or random source: time is an argument.
type Machine interface {
	// Handle decides on one input, whose answer goes to t.
	Handle(now time.Time, t Ticket, in any) Step
	// Replay applies one record: those of the log while loading, later those of its own steps.
	Replay(rec record.Record) error
	// Loaded is called once, after the last record of the log.
	Loaded(now time.Time)
	// NextDeadline is when Tick wants to be called next, false for never.
	NextDeadline() (time.Time, bool)
	// Tick runs one timer that is due.
	Tick(now time.Time) Step
}
