package consumer

import (
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/record"
)

// ErrorCode is an error code of the Kafka protocol.
type ErrorCode = coordinator.ErrorCode

// Migration policies (group.consumer.migration.policy).
const (
	MigrateBoth      = "bidirectional"
	MigrateUpgrade   = "upgrade"
	MigrateDowngrade = "downgrade"
	MigrateNever     = "disabled"
)

// Settings are those of all consumer groups. Each has to be set.
type Settings struct {
	// SessionTimeout is how long a member may be silent (group.consumer.session.timeout.ms).
	SessionTimeout time.Duration
	// HeartbeatInterval is what members are told (group.consumer.heartbeat.interval.ms).
	HeartbeatInterval time.Duration
	// AssignmentInterval is the least time between two target assignments of a group; none if it is
	// negative (group.consumer.assignment.interval.ms).
	AssignmentInterval time.Duration
	// RegexRefreshInterval is how often expressions are resolved even if no topic is new
	// (group.consumer.regex.refresh.interval.ms).
	RegexRefreshInterval time.Duration
	// MaxSize is how many members a group may have (group.consumer.max.size).
	MaxSize int
	// Assignors are those that members may ask for; the first is the default
	// (group.consumer.assignors).
	Assignors []string
	// MigrationPolicy is in which directions a group may change its protocol while it has members
	// (group.consumer.migration.policy).
	MigrationPolicy string
}

// GroupSettings are the dynamic configs of one group; what is 0 is as in Settings.
type GroupSettings struct {
	SessionTimeout     time.Duration // consumer.session.timeout.ms
	HeartbeatInterval  time.Duration // consumer.heartbeat.interval.ms
	AssignmentInterval time.Duration // consumer.assignment.interval.ms; negative for none
}

// Config is what the groups of a shard share. Its owner may change it between two calls.
type Config struct {
	Settings
	// Classic and ClassicTimers are those of the shard's classic groups, for groups that go back to
	// the classic protocol.
	Classic       *classic.Config
	ClassicTimers *classic.Timers
	// Group returns the settings of one group.
	Group func(groupID string) GroupSettings
	// Topics returns the present topics.
	Topics func() Topics
}

// TopicPartitions are partitions of one topic.
type TopicPartitions struct {
	TopicID    uuid.UUID
	Partitions []int32
}

// HeartbeatRequest is a ConsumerGroupHeartbeat: it joins, lives, reports or leaves.
type HeartbeatRequest struct {
	GroupID  string
	MemberID string
	// MemberEpoch is the epoch of the member, 0 to join, -1 to leave, -2 to leave for a while
	// (static members only).
	MemberEpoch int32
	InstanceID  *string
	// The rest is null, or -1, if it has not changed since the last request.
	RackID             *string
	RebalanceTimeoutMS int32
	Topics             []string // subscribed by name
	Regex              *string  // subscribed by expression
	Assignor           *string
	Owned              []TopicPartitions
	ClientID           string
	ClientHost         string
	// RequireMemberID is set from version 1 on: the member chooses its id.
	RequireMemberID bool
	// NewID is the id for a member that has none.
	NewID string
	// Visible tells the topics that the client may know of, which are those that an expression can
	// match. Nil for all.
	Visible func(topic string) bool
}

// HeartbeatResponse answers a HeartbeatRequest.
type HeartbeatResponse struct {
	Code ErrorCode
	// Message explains Code.
	Message     string
	MemberID    string
	MemberEpoch int32
	IntervalMS  int32
	// Assignment is nil if it is what the member knows.
	Assignment []TopicPartitions
}

// Effects collects what a call wants done. If the call refuses what was asked for, nothing is.
type Effects struct {
	// Outputs are for tickets whose wait is over.
	Outputs []coordinator.Output
	// Records are to be written and given to Apply.
	Records []record.Record
	// Downgrade is set if Records end the group, and a classic one takes its place.
	Downgrade *Downgrade
}

// Downgrade is the classic group that takes the place of a consumer group.
type Downgrade struct {
	Group    *classic.Group
	Metadata *offsets.GroupMetadata
	// Rebalance says that the members have to join again.
	Rebalance bool
}

// Description is a group as an administrator sees it.
type Description struct {
	GroupID         string
	State           string
	Epoch           int32
	AssignmentEpoch int32
	Assignor        string
	Members         []MemberDescription
}

// MemberDescription is one member as an administrator sees it.
type MemberDescription struct {
	MemberID           string
	InstanceID, RackID *string
	Epoch              int32
	ClientID           string
	ClientHost         string
	Topics             []string
	Regex              *string
	// Assignment has the partitions that the member has, those it has to give back included.
	Assignment, Target []NamedPartitions
	Classic            bool // it uses the classic protocol
}

// NamedPartitions are partitions of one topic, with its name.
type NamedPartitions struct {
	Topic string
	TopicPartitions
}
