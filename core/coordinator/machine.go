package coordinator

import (
	"context"
	"time"

	"github.com/millstream-io/millstream/core/record"
)

// Log is the topic in which the shards keep their records; shard n is partition n. The broker
// implements it over its replicas.
type Log interface {
	// Append writes b and returns when it is durable (acks=all). It sets the offsets itself, one
	// after the other up to lastOffset. Errors: those of errors.go, or any other for "nothing was
	// written". A context error counts as ErrUnknownOutcome.
	Append(ctx context.Context, partition int32, b Batch) (lastOffset int64, err error)
	// Replay calls fn for every record and marker of the partition from its start to its end at the
	// time of the call, in order; it waits for those that are appended and not durable yet. Keys and
	// values are fn's only until it returns. It returns fn's error.
	Replay(ctx context.Context, partition int32, fn func(Entry) error) error
	// LeaderEpoch is the epoch in which this node leads the partition now, or -1.
	LeaderEpoch(partition int32) int32
}

// Producer is a transactional producer (KIP-98): what it writes counts once its transaction is
// committed.
type Producer struct {
	ID    int64
	Epoch int16
}

// Batch is what is appended at once: records, or one marker.
type Batch struct {
	Records []record.Record
	// Producer is whose transaction the records belong to, nil for ordinary ones.
	Producer *Producer
	// Marker ends a transaction; there are no Records and no Producer then. The log sets its offset
	// and leader epoch.
	Marker *record.ControlOptions
	// TransactionVersion is that of the marker's transaction (KIP-890).
	TransactionVersion int16
}

// Entry is one record of a Log, or one marker.
type Entry struct {
	// Record is the record. Of a marker, only its Offset and Timestamp are set.
	Record record.Record
	// Producer is whose transaction it belongs to, or ends; nil for an ordinary record.
	Producer *Producer
	// Marker says that it is a marker; Commit, which of the two.
	Marker, Commit bool
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
	// Producer makes the records part of its transaction. They are appended as a batch of their own.
	Producer *Producer
	// Marker is appended in the place of Records; Outputs then wait for it, and Fail is called if it
	// is refused.
	Marker *record.ControlOptions
	// TransactionVersion goes with Marker, see Batch.
	TransactionVersion int16
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
	// Replay applies one ordinary record: those of the log while loading, later those of its own
	// steps. Its offset is set in both cases.
	Replay(rec record.Record) error
	// Loaded is called once, after the last record of the log.
	Loaded(now time.Time)
	// NextDeadline is when Tick wants to be called next, false for never.
	NextDeadline() (time.Time, bool)
	// Tick runs one timer that is due.
	Tick(now time.Time) Step
}

// TransactionalMachine is a Machine whose log has transactions. One that is not does not load a log
// that has any.
type TransactionalMachine interface {
	Machine
	// ReplayTransactional applies a record whose transaction is not decided yet.
	ReplayTransactional(p Producer, rec record.Record) error
	// ReplayMarker applies the marker at offset: the transaction that p has open here is decided.
	ReplayMarker(p Producer, commit bool, offset int64) error
}
