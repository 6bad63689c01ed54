package coordinator

import "strconv"

// ErrorCode is an error code of the Kafka protocol, as sent on the wire.
type ErrorCode int16

// The codes that coordinators answer with; numbers and names are those of the Kafka protocol guide.
const (
	CodeUnknownServerError           ErrorCode = -1
	CodeNone                         ErrorCode = 0
	CodeUnknownTopicOrPartition      ErrorCode = 3
	CodeOffsetMetadataTooLarge       ErrorCode = 12
	CodeCoordinatorLoadInProgress    ErrorCode = 14
	CodeCoordinatorNotAvailable      ErrorCode = 15
	CodeNotCoordinator               ErrorCode = 16
	CodeIllegalGeneration            ErrorCode = 22
	CodeInconsistentGroupProtocol    ErrorCode = 23
	CodeInvalidGroupID               ErrorCode = 24
	CodeUnknownMemberID              ErrorCode = 25
	CodeInvalidSessionTimeout        ErrorCode = 26
	CodeRebalanceInProgress          ErrorCode = 27
	CodeInvalidCommitOffsetSize      ErrorCode = 28
	CodeUnsupportedVersion           ErrorCode = 35
	CodeInvalidRequest               ErrorCode = 42
	CodePolicyViolation              ErrorCode = 44
	CodeInvalidProducerEpoch         ErrorCode = 47
	CodeInvalidTxnState              ErrorCode = 48
	CodeInvalidProducerIDMapping     ErrorCode = 49
	CodeInvalidTransactionTimeout    ErrorCode = 50
	CodeConcurrentTransactions       ErrorCode = 51
	CodeTransactionCoordinatorFenced ErrorCode = 52
	CodeNonEmptyGroup                ErrorCode = 68
	CodeGroupIDNotFound              ErrorCode = 69
	CodeMemberIDRequired             ErrorCode = 79
	CodeGroupMaxSizeReached          ErrorCode = 81
	CodeFencedInstanceID             ErrorCode = 82
	CodeGroupSubscribedToTopic       ErrorCode = 86
	CodeUnstableOffsetCommit         ErrorCode = 88
	CodeProducerFenced               ErrorCode = 90
	CodeUnknownTopicID               ErrorCode = 100
	CodeTransactionalIDNotFound      ErrorCode = 105
	CodeTransactionAbortable         ErrorCode = 120
	CodeFencedMemberEpoch            ErrorCode = 110
	CodeUnreleasedInstanceID         ErrorCode = 111
	CodeUnsupportedAssignor          ErrorCode = 112
	CodeStaleMemberEpoch             ErrorCode = 113
	CodeInvalidRegularExpression     ErrorCode = 128
)

var codeNames = map[ErrorCode]string{
	CodeUnknownServerError:           "UNKNOWN_SERVER_ERROR",
	CodeNone:                         "NONE",
	CodeUnknownTopicOrPartition:      "UNKNOWN_TOPIC_OR_PARTITION",
	CodeOffsetMetadataTooLarge:       "OFFSET_METADATA_TOO_LARGE",
	CodeCoordinatorLoadInProgress:    "COORDINATOR_LOAD_IN_PROGRESS",
	CodeCoordinatorNotAvailable:      "COORDINATOR_NOT_AVAILABLE",
	CodeNotCoordinator:               "NOT_COORDINATOR",
	CodeIllegalGeneration:            "ILLEGAL_GENERATION",
	CodeInconsistentGroupProtocol:    "INCONSISTENT_GROUP_PROTOCOL",
	CodeInvalidGroupID:               "INVALID_GROUP_ID",
	CodeUnknownMemberID:              "UNKNOWN_MEMBER_ID",
	CodeInvalidSessionTimeout:        "INVALID_SESSION_TIMEOUT",
	CodeRebalanceInProgress:          "REBALANCE_IN_PROGRESS",
	CodeInvalidCommitOffsetSize:      "INVALID_COMMIT_OFFSET_SIZE",
	CodeUnsupportedVersion:           "UNSUPPORTED_VERSION",
	CodeInvalidRequest:               "INVALID_REQUEST",
	CodePolicyViolation:              "POLICY_VIOLATION",
	CodeInvalidProducerEpoch:         "INVALID_PRODUCER_EPOCH",
	CodeInvalidTxnState:              "INVALID_TXN_STATE",
	CodeInvalidProducerIDMapping:     "INVALID_PRODUCER_ID_MAPPING",
	CodeInvalidTransactionTimeout:    "INVALID_TRANSACTION_TIMEOUT",
	CodeConcurrentTransactions:       "CONCURRENT_TRANSACTIONS",
	CodeTransactionCoordinatorFenced: "TRANSACTION_COORDINATOR_FENCED",
	CodeNonEmptyGroup:                "NON_EMPTY_GROUP",
	CodeGroupIDNotFound:              "GROUP_ID_NOT_FOUND",
	CodeMemberIDRequired:             "MEMBER_ID_REQUIRED",
	CodeGroupMaxSizeReached:          "GROUP_MAX_SIZE_REACHED",
	CodeFencedInstanceID:             "FENCED_INSTANCE_ID",
	CodeGroupSubscribedToTopic:       "GROUP_SUBSCRIBED_TO_TOPIC",
	CodeUnstableOffsetCommit:         "UNSTABLE_OFFSET_COMMIT",
	CodeProducerFenced:               "PRODUCER_FENCED",
	CodeUnknownTopicID:               "UNKNOWN_TOPIC_ID",
	CodeTransactionalIDNotFound:      "TRANSACTIONAL_ID_NOT_FOUND",
	CodeTransactionAbortable:         "TRANSACTION_ABORTABLE",
	CodeFencedMemberEpoch:            "FENCED_MEMBER_EPOCH",
	CodeUnreleasedInstanceID:         "UNRELEASED_INSTANCE_ID",
	CodeUnsupportedAssignor:          "UNSUPPORTED_ASSIGNOR",
	CodeStaleMemberEpoch:             "STALE_MEMBER_EPOCH",
	CodeInvalidRegularExpression:     "INVALID_REGULAR_EXPRESSION",
}

// String is the code's name in the Kafka protocol guide, or its number.
func (c ErrorCode) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "ERROR_" + strconv.Itoa(int(c))
}
