package group

import (
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/consumer"
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
	// Settings are those to begin with; Configure changes them.
	Settings
	// Topics returns the present topics; default none. Consumer groups assign them.
	Topics func() consumer.Topics
	// RetentionCheckInterval is how often expired offsets are looked for
	// (offsets.retention.check.interval.ms, 10 min).
	RetentionCheckInterval time.Duration
	// CommitTimeout bounds one append (offsets.commit.timeout.ms, 5 s).
	CommitTimeout time.Duration
}

const defaultPartitions = 50

func (o Options) withDefaults() Options {
	setDefault(&o.Partitions, defaultPartitions)
	o.Settings = o.Settings.withDefaults()
	setDefault(&o.RetentionCheckInterval, 10*time.Minute)
	setDefault(&o.CommitTimeout, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Topics == nil {
		o.Topics = func() consumer.Topics { return noTopics{} }
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
	errs = append(errs, o.Settings.validate())
	return errors.Join(errs...)
}

// noTopics is a cluster without topics.
type noTopics struct{}

func (noTopics) Version() int64                        { return 0 }
func (noTopics) ByName(string) (consumer.Topic, bool)  { return consumer.Topic{}, false }
func (noTopics) ByID(uuid.UUID) (consumer.Topic, bool) { return consumer.Topic{}, false }
func (noTopics) Names() iter.Seq[string]               { return func(func(string) bool) {} }
