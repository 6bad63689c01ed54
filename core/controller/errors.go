package controller

import (
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
)

// Errors in the results of commands. They come inside an *Error, which gives the reason.
var (
	ErrTopicExists              = errors.New("topic already exists")
	ErrInvalidTopicName         = metadata.ErrInvalidTopicName
	ErrInvalidPartitions        = errors.New("invalid number of partitions")
	ErrInvalidReplicationFactor = errors.New("invalid replication factor")
	ErrInvalidAssignment        = errors.New("invalid replica assignment")
	ErrInvalidConfig            = metadata.ErrInvalidConfig
	ErrInvalidRequest           = errors.New("invalid request")
	ErrUnknownTopic             = errors.New("unknown topic")
	ErrUnknownTopicID           = errors.New("unknown topic id")
	ErrTopicDeletionDisabled    = errors.New("topic deletion is disabled")
	ErrPolicyViolation          = errors.New("against the policy")
	ErrElectionNotNeeded        = errors.New("election is not needed")
	ErrNoReassignment           = errors.New("no reassignment is in progress")
	ErrInvalidUpdateVersion     = errors.New("the feature's level cannot be changed so")
	ErrUnknownBroker            = errors.New("broker is not registered")
	ErrResourceNotFound         = errors.New("the resource is not found")
	ErrDuplicateResource        = errors.New("the resource is there twice")
	ErrUnacceptableCredential   = errors.New("the credential is not acceptable")
	ErrUnsupportedMechanism     = errors.New("the SASL mechanism is not supported")
)

// Errors of a whole call.
var (
	// ErrNotController says that another node leads the controllers, or none does.
	ErrNotController = errors.New("not the controller")
	// ErrOutcomeUnknown says that the call ended before its outcome was known. It may be made again.
	ErrOutcomeUnknown = errors.New("outcome of the command is not known")
	// ErrNoSpace says that the disk is full; the command was not taken.
	ErrNoSpace = raft.ErrNoSpace
	// ErrClosed says that the controller was closed.
	ErrClosed = errors.New("controller is closed")
	// ErrFailed says that the controller ended by itself; the cause is wrapped with it.
	ErrFailed = errors.New("controller has failed")
	// ErrForeignCluster says that the data belongs to another cluster than Options.ClusterID.
	ErrForeignCluster = errors.New("metadata belongs to another cluster")
)

// Error is why a command, or one part of it, was refused.
type Error struct {
	Kind   error  // one of the sentinels above
	Reason string // for users: a whole sentence, in Kafka's words where it has some
}

// Error returns the reason.
func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Kind.Error()
	}
	return e.Reason
}

// Unwrap gives Kind to errors.Is.
func (e *Error) Unwrap() error { return e.Kind }

// refuse makes an *Error. People search for the texts of Kafka: they are kept to the letter.
func refuse(kind error, format string, args ...any) *Error {
	return &Error{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// kinds are the names under which kinds of errors are kept in replies. They must not change.
var kinds = map[string]error{
	"topicExists":              ErrTopicExists,
	"invalidTopicName":         ErrInvalidTopicName,
	"invalidPartitions":        ErrInvalidPartitions,
	"invalidReplicationFactor": ErrInvalidReplicationFactor,
	"invalidAssignment":        ErrInvalidAssignment,
	"invalidConfig":            ErrInvalidConfig,
	"invalidRequest":           ErrInvalidRequest,
	"unknownTopic":             ErrUnknownTopic,
	"unknownTopicId":           ErrUnknownTopicID,
	"topicDeletionDisabled":    ErrTopicDeletionDisabled,
	"policyViolation":          ErrPolicyViolation,
	"electionNotNeeded":        ErrElectionNotNeeded,
	"noReassignment":           ErrNoReassignment,
	"invalidUpdateVersion":     ErrInvalidUpdateVersion,
	"unknownBroker":            ErrUnknownBroker,
	"resourceNotFound":         ErrResourceNotFound,
	"duplicateResource":        ErrDuplicateResource,
	"unacceptableCredential":   ErrUnacceptableCredential,
	"unsupportedMechanism":     ErrUnsupportedMechanism,
}

// storedError is an *Error in a reply.
type storedError struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason,omitempty"`
}

func storeError(e *Error) *storedError {
	if e == nil {
		return nil
	}
	for name, kind := range kinds {
		if e.Kind == kind {
			return &storedError{name, e.Reason}
		}
	}
	return &storedError{"", e.Error()}
}

func (s *storedError) err() error {
	if s == nil {
		return nil
	}
	kind, ok := kinds[s.Kind]
	if !ok {
		kind = ErrInvalidRequest // of a later build
	}
	return &Error{Kind: kind, Reason: s.Reason}
}
