package server

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/txn"
)

// errorCodes maps what can go wrong to the number that a client understands. The first row that
// matches decides, so that narrow errors stand before wide ones.
var errorCodes = []struct {
	err  error
	code *kerr.Error
}{
	// Partitions and reading.
	{replica.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{replica.ErrUnknownTopicID, kerr.UnknownTopicID},
	{replica.ErrOffline, kerr.KafkaStorageError},
	{replica.ErrNotLeader, kerr.NotLeaderForPartition},
	{replica.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch},
	{replica.ErrUnknownLeaderEpoch, kerr.UnknownLeaderEpoch},
	{replica.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
	{storage.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	// Appending. KAFKA: the broker says INVALID_RECORD for what breaks a rule, CORRUPT_MESSAGE
	// for what breaks the format.
	{storage.ErrInvalidTxnState, kerr.InvalidTxnState},
	{storage.ErrTransactionCoordinatorFenced, kerr.TransactionCoordinatorFenced},
	{storage.ErrInvalidTimestamp, kerr.InvalidTimestamp},
	{storage.ErrInvalidRecord, kerr.InvalidRecord},
	{storage.ErrCorrupt, kerr.CorruptMessage},
	{storage.ErrTooLarge, kerr.MessageTooLarge},
	{storage.ErrTooManyProducers, kerr.PolicyViolation},
	{storage.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
	{storage.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
	// A full disk or a failed one: retriable, another broker may lead soon.
	{storage.ErrNoSpace, kerr.KafkaStorageError},
	{storage.ErrNoFiles, kerr.KafkaStorageError},
	{storage.ErrDirFailed, kerr.KafkaStorageError},
	{storage.ErrDamaged, kerr.KafkaStorageError},
	{storage.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{storage.ErrClosed, kerr.NotLeaderForPartition},
	// Admin requests.
	{controller.ErrInvalidRequest, kerr.InvalidRequest},
	{controller.ErrTopicDeletionDisabled, kerr.TopicDeletionDisabled},
	{controller.ErrTopicExists, kerr.TopicAlreadyExists},
	{metadata.ErrInvalidTopicName, kerr.InvalidTopicException},
	{metadata.ErrInvalidConfig, kerr.InvalidConfig},
	{controller.ErrInvalidPartitions, kerr.InvalidPartitions},
	{controller.ErrInvalidReplicationFactor, kerr.InvalidReplicationFactor},
	{controller.ErrInvalidAssignment, kerr.InvalidReplicaAssignment},
	{controller.ErrUnknownTopicID, kerr.UnknownTopicID},
	{controller.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{controller.ErrPolicyViolation, kerr.PolicyViolation},
	{controller.ErrElectionNotNeeded, kerr.ElectionNotNeeded},
	{controller.ErrNoReassignment, kerr.NoReassignmentInProgress},
	{controller.ErrInvalidUpdateVersion, kerr.InvalidUpdateVersion},
	{controller.ErrUnknownBroker, kerr.BrokerIDNotRegistered},
	{controller.ErrResourceNotFound, kerr.ResourceNotFound},
	{controller.ErrDuplicateResource, kerr.DuplicateResource},
	{controller.ErrUnacceptableCredential, kerr.UnacceptableCredential},
	{controller.ErrUnsupportedMechanism, kerr.UnsupportedSaslMechanism},
	{controller.ErrNotController, kerr.NotController},
	{controller.ErrClosed, kerr.NotController},
	{controller.ErrFailed, kerr.NotController},
	{controller.ErrOutcomeUnknown, kerr.RequestTimedOut},
	// A request whose time is over.
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// errorCode returns Kafka's number for err: 0 for nil, UNKNOWN_SERVER_ERROR for what no client
// can act on.
func errorCode(err error) int16 {
	if err == nil {
		return 0
	}
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	for i := range errorCodes {
		if errors.Is(err, errorCodes[i].err) {
			return errorCodes[i].code.Code
		}
	}
	return kerr.UnknownServerError.Code
}

// ErrorCode returns Kafka's number for an error of the parts a Server answers from, 0 for nil.
func ErrorCode(err error) int16 { return errorCode(err) }

// setError fills the two fields with which most answers report an error; nil leaves them.
func setError(code *int16, message **string, err error) {
	if err == nil {
		return
	}
	text := err.Error()
	*code, *message = errorCode(err), &text
}

// firstError returns the first of errs that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// leastTimeoutMillis is what a request gets that asks for no time at all: Kafka answers it at once
// and goes on, here it would be given up.
const leastTimeoutMillis = 1000

// requestTimeout bounds a request by the time that its client gives it.
func requestTimeout(ctx context.Context, millis int32) (context.Context, context.CancelFunc) {
	span := time.Duration(max(millis, leastTimeoutMillis)) * time.Millisecond
	return context.WithTimeout(ctx, span)
}

// noError is the code of an answer without error.
const noError = group.ErrorCode(0)

// fencedCode is code for a client of a request's version: those before version since know
// INVALID_PRODUCER_EPOCH in the place of PRODUCER_FENCED.
func fencedCode(code txn.ErrorCode, version, since int16) int16 {
	if code == coordinator.CodeProducerFenced && version < since {
		return kerr.InvalidProducerEpoch.Code
	}
	return int16(code)
}
