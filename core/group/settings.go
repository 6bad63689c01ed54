package group

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/group/assign"
	"github.com/millstream-io/millstream/core/group/consumer"
)

// Settings are what may change while the coordinator runs. A zero field is Kafka's default.
type Settings struct {
	// MinSessionTimeout and MaxSessionTimeout bound what members may ask for
	// (group.min.session.timeout.ms 6 s, group.max.session.timeout.ms 30 min).
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// InitialRebalanceDelay is how long an empty group waits for more members
	// (group.initial.rebalance.delay.ms, 3 s); negative for not at all.
	InitialRebalanceDelay time.Duration
	// MaxSize is how many members a classic group may have (group.max.size, no limit).
	MaxSize int
	// MaxGroups is how many groups all shards of this node may have (millstream.groups.max, no limit).
	MaxGroups int
	// OffsetMetadataMaxBytes bounds the text of a commit (offset.metadata.max.bytes, 4096; counted
	// in UTF-16 units, as Kafka does).
	OffsetMetadataMaxBytes int
	// OffsetsRetention is how long offsets of an empty group are kept (offsets.retention.minutes,
	// 7 days).
	OffsetsRetention time.Duration
	// Consumer are those of consumer groups (group.consumer.*).
	Consumer ConsumerSettings
	// Groups are the dynamic configs of single groups, by id.
	Groups map[string]GroupSettings
}

// ConsumerSettings are those of all consumer groups. The defaults: sessions of 45 s, heartbeats
// each 5 s, assignments 1 s apart, expressions resolved each 10 min, no limit of members, the
// assignors uniform and range, migration in both directions.
type ConsumerSettings = consumer.Settings

// GroupSettings are the dynamic configs of one group.
type GroupSettings = consumer.GroupSettings

func (s Settings) withDefaults() Settings {
	setDefault(&s.MinSessionTimeout, 6*time.Second)
	setDefault(&s.MaxSessionTimeout, 30*time.Minute)
	setDefault(&s.InitialRebalanceDelay, 3*time.Second)
	setDefault(&s.MaxSize, math.MaxInt32)
	setDefault(&s.OffsetMetadataMaxBytes, 4096)
	setDefault(&s.OffsetsRetention, 7*24*time.Hour)
	s.InitialRebalanceDelay = max(s.InitialRebalanceDelay, 0)
	c := &s.Consumer
	setDefault(&c.SessionTimeout, 45*time.Second)
	setDefault(&c.HeartbeatInterval, 5*time.Second)
	setDefault(&c.AssignmentInterval, time.Second)
	setDefault(&c.RegexRefreshInterval, 10*time.Minute)
	setDefault(&c.MaxSize, math.MaxInt32)
	setDefault(&c.MigrationPolicy, consumer.MigrateBoth)
	if len(c.Assignors) == 0 {
		c.Assignors = []string{"uniform", "range"}
	}
	s.Groups = maps.Clone(s.Groups)
	return s
}

// validate joins all faults of settings that have their defaults.
func (s Settings) validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("group options: "+format, args...))
		}
	}
	fault(s.MinSessionTimeout < 0 || s.MinSessionTimeout > s.MaxSessionTimeout,
		"MinSessionTimeout must be between 0 and MaxSessionTimeout")
	fault(s.MaxSize < 1 || s.Consumer.MaxSize < 1, "MaxSize must be at least 1")
	fault(s.OffsetMetadataMaxBytes < 0 || s.OffsetMetadataMaxBytes > maxMetadataUnits,
		"OffsetMetadataMaxBytes must be between 0 and %d, so that the text fits into its record",
		maxMetadataUnits)
	fault(s.Consumer.SessionTimeout < 0 || s.Consumer.HeartbeatInterval < 0,
		"the session timeout and heartbeat interval of consumer groups must be positive")
	for _, name := range s.Consumer.Assignors {
		fault(assign.ByName[name] == nil, "there is no assignor %q", name)
	}
	policies := []string{consumer.MigrateBoth, consumer.MigrateUpgrade, consumer.MigrateDowngrade,
		consumer.MigrateNever}
	fault(!slices.Contains(policies, s.Consumer.MigrationPolicy),
		"there is no migration policy %q: it is one of %q", s.Consumer.MigrationPolicy, policies)
	return errors.Join(errs...)
}

// Configure replaces the settings; groups follow with their next request. Invalid ones are refused,
// and the old ones stay.
func (c *Coordinator) Configure(s Settings) error {
	s = s.withDefaults()
	if err := s.validate(); err != nil {
		return fmt.Errorf("configure group coordinator: %w", err)
	}
	c.settings.Store(&s)
	return nil
}
