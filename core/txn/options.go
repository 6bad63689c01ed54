package txn

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// TopicName is the topic in which transactions are kept.
const TopicName = "__transaction_state"

// MarkerSender brings markers to partitions. The broker joins it over its replicas and its groups.
type MarkerSender interface {
	// WriteMarker returns NONE when the marker is durable in the partition, or when there is no such
	// partition any more. Any other code means that it is to be tried again.
	WriteMarker(ctx context.Context, topic string, partition int32, m record.ControlOptions,
		transactionVersion int16) ErrorCode
}

// Options configure a Coordinator. Log, Markers and AllocateProducerIDs are needed; the zero
// value of the rest means Kafka's default.
type Options struct {
	// Log is the topic __transaction_state.
	Log coordinator.Log
	// Markers brings markers to the partitions of transactions.
	Markers MarkerSender
	// AllocateProducerIDs returns the ids [first, first+n), which nobody has.
	AllocateProducerIDs func(ctx context.Context) (first int64, n int32, err error)
	// Partitions is how many partitions the topic has (transaction.state.log.num.partitions, 50),
	// until UpdateLeadership says otherwise.
	Partitions int32
	// MaxIDs is how many transactional ids all shards of this node may have
	// (millstream.transactional.ids.max, no limit).
	MaxIDs int
	// MaxTimeout is the longest that a client may let its transactions run
	// (transaction.max.timeout.ms, 15 min).
	MaxTimeout time.Duration
	// AbortInterval is how often transactions past their timeout are looked for
	// (transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 s).
	AbortInterval time.Duration
	// Expiration is how long an unused transactional id is kept (transactional.id.expiration.ms,
	// 7 days).
	Expiration time.Duration
	// ExpirationInterval is how often unused transactional ids are looked for
	// (transaction.remove.expired.transaction.cleanup.interval.ms, 1 h).
	ExpirationInterval time.Duration
	// TransactionVersion is the level of the feature transaction.version: with 2 a coordinator that
	// fences a producer does it as its clients end transactions (KIP-890), with 0 records are in
	// version 0. Default always 2.
	TransactionVersion func() int16
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger gets what clients do not see; default discards.
	Logger *slog.Logger
}

const defaultPartitions = 50

func (o Options) withDefaults() Options {
	setDefault(&o.Partitions, defaultPartitions)
	setDefault(&o.MaxTimeout, 15*time.Minute)
	setDefault(&o.AbortInterval, 10*time.Second)
	setDefault(&o.Expiration, 7*24*time.Hour)
	setDefault(&o.ExpirationInterval, time.Hour)
	if o.TransactionVersion == nil {
		o.TransactionVersion = func() int16 { return versionTwo }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate joins all faults of options that have their defaults.
func (o Options) validate() error {
	var errs []error
	missing := func(what string) { errs = append(errs, errors.New("txn options: no "+what)) }
	if o.Log == nil {
		missing("Log")
	}
	if o.Markers == nil {
		missing("Markers")
	}
	if o.AllocateProducerIDs == nil {
		missing("AllocateProducerIDs")
	}
	if o.Partitions < 1 {
		errs = append(errs, errors.New("txn options: Partitions must be at least 1"))
	}
	if min(o.MaxTimeout, o.AbortInterval, o.Expiration, o.ExpirationInterval) < 0 {
		errs = append(errs, errors.New("txn options: times must not be negative"))
	}
	return errors.Join(errs...)
}
