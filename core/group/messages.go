package group

import (
	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/consumer"
	"github.com/millstream-io/millstream/core/record"
)

// ErrorCode is an error code of the Kafka protocol.
type ErrorCode = coordinator.ErrorCode

// The requests and answers of the classic protocol.
type (
	// JoinRequest asks to become, or stay, a member.
	JoinRequest = classic.JoinRequest
	// JoinResponse answers a JoinRequest.
	JoinResponse = classic.JoinResponse
	// SyncRequest asks for a member's assignment.
	SyncRequest = classic.SyncRequest
	// SyncResponse answers a SyncRequest.
	SyncResponse = classic.SyncResponse
	// HeartbeatRequest says that a member lives.
	HeartbeatRequest = classic.HeartbeatRequest
	// HeartbeatResponse answers a HeartbeatRequest.
	HeartbeatResponse = classic.HeartbeatResponse
	// LeaveRequest takes members out of a group.
	LeaveRequest = classic.LeaveRequest
	// LeaveMember names a member that leaves.
	LeaveMember = classic.LeaveMember
	// LeaveResponse answers a LeaveRequest.
	LeaveResponse = classic.LeaveResponse
	// Protocol is one way of assigning that a member can take part in.
	Protocol = classic.Protocol
	// Assignment is what the leader gives to one member.
	Assignment = classic.Assignment
)

// Those of the new consumer protocol (KIP-848).
type (
	// ConsumerHeartbeatRequest joins, lives, reports or leaves.
	ConsumerHeartbeatRequest = consumer.HeartbeatRequest
	// ConsumerHeartbeatResponse answers a ConsumerHeartbeatRequest.
	ConsumerHeartbeatResponse = consumer.HeartbeatResponse
	// ConsumerPartitions are partitions of one topic.
	ConsumerPartitions = consumer.TopicPartitions
	// NamedPartitions are partitions of one topic, with its name.
	NamedPartitions = consumer.NamedPartitions
	// Topics is a snapshot of the cluster's topics.
	Topics = consumer.Topics
	// Topic is one of them.
	Topic = consumer.Topic
)

// DescribeConsumerResponse describes one consumer group. Code is CodeGroupIDNotFound, and Message
// says why, for one that does not exist.
type DescribeConsumerResponse struct {
	Code    ErrorCode
	Message string
	consumer.Description
}

// OffsetCommit is the offset of one partition, to be committed.
type OffsetCommit struct {
	Topic string
	// TopicID is kept with the offset, zero if it is not known.
	TopicID   [16]byte
	Partition int32
	// Offset is the next record to read.
	Offset int64
	// LeaderEpoch is that of the last record read, -1 if the client did not say.
	LeaderEpoch int32
	// Metadata is the client's own text.
	Metadata string
}

// CommitRequest commits offsets of a group.
type CommitRequest struct {
	GroupID string
	// MemberID, InstanceID and Generation are those of the member that commits; "", nil and -1 for
	// an administrator or a consumer that assigns itself.
	MemberID   string
	InstanceID *string
	Generation int32
	// RetentionMS is how long the client wants the offsets kept, -1 for as long as the broker does
	// (OffsetCommit v2 to v4).
	RetentionMS int64
	// APIVersion is that of the OffsetCommit: members of consumer groups have to use 9 or later.
	APIVersion int16
	Offsets    []OffsetCommit
}

// TxnCommitRequest commits offsets of a group as part of a producer's transaction.
type TxnCommitRequest struct {
	GroupID string
	// MemberID, InstanceID and Generation are those of the member whose input the transaction has
	// processed; "", nil and -1 if the client does not say (KIP-447).
	MemberID      string
	InstanceID    *string
	Generation    int32
	ProducerID    int64
	ProducerEpoch int16
	Offsets       []OffsetCommit
}

// CommitResponse has a code for each of the request's offsets, in their order. A generation in a
// group that does not exist is CodeGroupIDNotFound.
type CommitResponse struct{ Codes []ErrorCode }

// TopicPartitions names partitions of a topic.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// FetchRequest asks for a group's committed offsets.
type FetchRequest struct {
	GroupID string
	// MemberID and MemberEpoch are those of a member of a consumer group, which are checked; nil and
	// -1 if the client does not say.
	MemberID    *string
	MemberEpoch int32
	// All asks for every partition that has one; Topics is not used then.
	All    bool
	Topics []TopicPartitions
	// RequireStable asks for CodeUnstableOffsetCommit where a transaction is open (KIP-447).
	RequireStable bool
}

// FetchedOffset is what is committed for one partition: Offset -1 if nothing is.
type FetchedOffset struct {
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    string
	// TopicID is that of the commit, zero if it is not known: a topic of another id has the name now.
	TopicID [16]byte
	// Code is CodeUnstableOffsetCommit, or none.
	Code ErrorCode
}

// FetchedTopic is the answer for one topic.
type FetchedTopic struct {
	Topic      string
	Partitions []FetchedOffset
}

// FetchResponse answers a FetchRequest, in its order; with All, sorted.
type FetchResponse struct {
	Code   ErrorCode
	Topics []FetchedTopic
}

// DescribeResponse describes one group. State is classic.Dead, and Code CodeGroupIDNotFound, for a
// group that does not exist.
type DescribeResponse struct {
	Code ErrorCode
	classic.Description
}

// ListRequest filters groups; an empty filter lets all pass. Case does not matter.
type ListRequest struct {
	States []string
	Types  []string
}

// ListedGroup is one group of a list.
type ListedGroup struct {
	GroupID      string
	ProtocolType string
	State        string
	Type         string // "classic" or "consumer"
}

// ListResponse answers a ListRequest with what this node coordinates, sorted.
type ListResponse struct {
	Code   ErrorCode
	Groups []ListedGroup
}

// DeleteOffsetsRequest takes committed offsets away.
type DeleteOffsetsRequest struct {
	GroupID string
	Topics  []TopicPartitions
}

// DeleteOffsetsResponse has one code for the group, or if that is CodeNone, one for each topic.
type DeleteOffsetsResponse struct {
	Code   ErrorCode
	Topics []ErrorCode
}

// Inputs of the machine that are not requests of a client as they are.
type (
	describeInput         struct{ groupID string }
	describeConsumerInput struct{ groupID string }
	listInput             struct{ ListRequest }
	deleteInput           struct{ groupID string }
	// topicsDeletedInput says that topics are gone, and their offsets with them.
	topicsDeletedInput struct{ topics []string }
	// markerInput ends a transaction.
	markerInput struct {
		marker             record.ControlOptions
		transactionVersion int16
	}
)

// codeOnly is the answer of inputs that have no other.
type codeOnly struct{ code ErrorCode }
