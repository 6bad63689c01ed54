package classic

import "github.com/millstream-io/millstream/core/coordinator"

// ErrorCode is an error code of the Kafka protocol.
type ErrorCode = coordinator.ErrorCode

// Protocol is one way of assigning that a member can take part in, with the member's own data for
// it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinRequest asks to become, or stay, a member.
type JoinRequest struct {
	GroupID string
	// MemberID is "" for a member that has no id yet.
	MemberID string
	// NewID is the unique part of the id for a member that has none; a uuid made by the caller.
	NewID string
	// InstanceID is set for a static member (KIP-345).
	InstanceID *string
	ClientID   string
	ClientHost string
	// ProtocolType is the same for all members: "consumer", "connect", "sr", or any other.
	ProtocolType string
	// Protocols are in the member's order of preference.
	Protocols []Protocol
	// SessionTimeoutMS is how long the member may be silent.
	SessionTimeoutMS int32
	// RebalanceTimeoutMS is how long it may take to come back when a rebalance begins.
	RebalanceTimeoutMS int32
	// RequireMemberID is set from JoinGroup v4 on: ids are given out before members are counted.
	RequireMemberID bool
	// CanSkipAssignment is set from JoinGroup v9 on.
	CanSkipAssignment bool
	// Visible tells the topics that the client may know of; nil for all. It matters to a group that
	// others subscribe in by expression.
	Visible func(topic string) bool
}

// JoinMember is one member as the leader is told of it.
type JoinMember struct {
	MemberID   string
	InstanceID *string
	Metadata   []byte
}

// JoinResponse answers a JoinRequest. Generation is -1 unless Code is CodeNone.
type JoinResponse struct {
	Code         ErrorCode
	Generation   int32
	ProtocolType string
	Protocol     string
	Leader       string
	MemberID     string
	// SkipAssignment tells the leader to sync without assignments: they have not changed.
	SkipAssignment bool
	// Members is for the leader only.
	Members []JoinMember
}

// Assignment is what the leader gives to one member.
type Assignment struct {
	MemberID   string
	Assignment []byte
}

// SyncRequest asks for the member's assignment; the leader brings those of all.
type SyncRequest struct {
	GroupID    string
	MemberID   string
	InstanceID *string
	Generation int32
	// ProtocolType and Protocol are checked if given (v5, KIP-559).
	ProtocolType *string
	Protocol     *string
	Assignments  []Assignment
}

// SyncResponse answers a SyncRequest.
type SyncResponse struct {
	Code         ErrorCode
	ProtocolType string
	Protocol     string
	Assignment   []byte
}

// HeartbeatRequest says that a member lives.
type HeartbeatRequest struct {
	GroupID    string
	MemberID   string
	InstanceID *string
	Generation int32
}

// HeartbeatResponse answers a HeartbeatRequest.
type HeartbeatResponse struct{ Code ErrorCode }

// LeaveMember names a member by its id, or a static one by its instance id alone.
type LeaveMember struct {
	MemberID   string
	InstanceID *string
}

// LeaveRequest takes members out of a group.
type LeaveRequest struct {
	GroupID string
	Members []LeaveMember
}

// LeftMember is the outcome for one LeaveMember.
type LeftMember struct {
	LeaveMember
	Code ErrorCode
}

// LeaveResponse answers a LeaveRequest, its members in the order of the request.
type LeaveResponse struct {
	Code    ErrorCode
	Members []LeftMember
}

// MemberDescription is one member as an administrator sees it.
type MemberDescription struct {
	MemberID   string
	InstanceID *string
	ClientID   string
	ClientHost string
	Metadata   []byte
	Assignment []byte
}

// Description is a group as an administrator sees it.
type Description struct {
	GroupID      string
	State        State
	ProtocolType string
	// Protocol is "" unless the group is stable.
	Protocol string
	Members  []MemberDescription
}
