package group

import (
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/coordinator"
)

// Options configure a Coordinator. Log is needed; the zero value of the rest means Kafka's default.
type Options struct {
	// Log is the topic __consumer_offsets.
	Log coordinator.Log
	// Partitions is how many partitions the topic has (offsets.topic.num.partitions, 50), until
	// UpdateLeadership says otherwise.
	Partitions int32
	// Logger gets state changes; default discards.
	Logger *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
	// NewID makes the unique part of member ids; default a random uuid.
	NewID func() string
	// MinSessionTimeout and MaxSessionTimeout bound what members may ask for
	// (group.min.session.timeout.ms 6 s, group.max.session.timeout.ms 30 min).
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// InitialRebalanceDelay is how long an empty group waits for more members
	// (group.initial.rebalance.delay.ms, 3 s); negative for not at all.
	InitialRebalanceDelay time.Duration
	// MaxSize is how many members a group may have (group.max.size, no limit).
	MaxSize int
	// OffsetMetadataMaxBytes bounds the text of a commit (offset.metadata.max.bytes, 4096; counted
	// in UTF-16 units, as Kafka does).
	OffsetMetadataMaxBytes int
	// OffsetsRetention is how long offsets of an empty group are kept (offsets.retention.minutes,
	// 7 days).
	OffsetsRetention time.Duration
	// RetentionCheckInterval is how often expired offsets are looked for
	// (offsets.retention.check.interval.ms, 10 min).
	RetentionCheckInterval time.Duration
	// CommitTimeout bounds one append (offsets.commit.timeout.ms, 5 s).
	CommitTimeout time.Duration
}

const defaultPartitions = 50

func (o Options) withDefaults() Options {
	setDefault(&o.Partitions, defaultPartitions)
	setDefault(&o.MinSessionTimeout, 6*time.Second)
	setDefault(&o.MaxSessionTimeout, 30*time.Minute)
	setDefault(&o.InitialRebalanceDelay, 3*time.Second)
	setDefault(&o.MaxSize, math.MaxInt32)
	setDefault(&o.OffsetMetadataMaxBytes, 4096)
	setDefault(&o.OffsetsRetention, 7*24*time.Hour)
	setDefault(&o.RetentionCheckInterval, 10*time.Minute)
	setDefault(&o.CommitTimeout, 5*time.Second)
	o.InitialRebalanceDelay = max(o.InitialRebalanceDelay, 0)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
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
	if o.Log == nil {
		errs = append(errs, errors.New("group options: Log is missing"))
	}
	if o.Partitions < 1 {
		errs = append(errs, errors.New("group options: Partitions must be at least 1"))
	}
	if o.MinSessionTimeout < 0 || o.MinSessionTimeout > o.MaxSessionTimeout {
		errs = append(errs, errors.New("group options: MinSessionTimeout must be between 0 and "+
			"MaxSessionTimeout"))
	}
	if o.MaxSize < 1 {
		errs = append(errs, errors.New("group options: MaxSize must be at least 1"))
	}
	if o.OffsetMetadataMaxBytes < 0 || o.OffsetMetadataMaxBytes > maxMetadataUnits {
		errs = append(errs, errors.New("group options: OffsetMetadataMaxBytes must be between 0 "+
			"and 10000, so that the text fits into its record"))
	}
	return errors.Join(errs...)
}
