package txn

import (
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// ErrorCode is an error code of the Kafka protocol.
type ErrorCode = coordinator.ErrorCode

// Producer is a producer id with its epoch.
type Producer = coordinator.Producer

// InitRequest asks for the producer id and epoch of a transactional id (InitProducerId). Whoever
// had it before is fenced.
type InitRequest struct {
	TransactionalID string
	TimeoutMS       int32
	// Expected is what the client believes to have and wants to be raised (KIP-360); nil for a
	// client that starts.
	Expected *Producer
	// newProducerID is one that nobody has, NoProducerID until the machine asked for it.
	newProducerID int64
}

// InitResponse answers an InitRequest; the producer is {-1, -1} if Code is not NONE.
type InitResponse struct {
	Code     ErrorCode
	Producer Producer
}

// AddRequest adds partitions to the open transaction, or opens one with them; with VerifyOnly it
// asks whether they are in it (AddPartitionsToTxn, AddOffsetsToTxn).
type AddRequest struct {
	TransactionalID string
	Producer        Producer
	Partitions      []TopicPartition
	VerifyOnly      bool
	// TransactionVersion is 2 for a client whose epoch rises with each transaction (KIP-890).
	TransactionVersion int16
	// Patience is how long to wait for the markers of the last transaction before the answer is
	// CONCURRENT_TRANSACTIONS; 0 for clients that know that code and do so themselves.
	Patience time.Duration
}

// AddResponse answers an AddRequest.
type AddResponse struct {
	// Code concerns all partitions.
	Code ErrorCode
	// Partitions has a code for each of the request's if Code is NONE; nil stands for NONE only.
	Partitions []ErrorCode
	// Waited says that the markers of the last transaction were waited for. They make the guards
	// void with which partitions are protected against markers that come late: take new ones, and
	// ask again.
	Waited bool
}

// CodeOf is what the answer says of the request's i-th partition.
func (r *AddResponse) CodeOf(i int) ErrorCode {
	if r.Code != coordinator.CodeNone || r.Partitions == nil {
		return r.Code
	}
	return r.Partitions[i]
}

// EndRequest commits or aborts (EndTxn).
type EndRequest struct {
	TransactionalID string
	Producer        Producer
	Commit          bool
	// TransactionVersion is 2 for a client whose epoch rises with each transaction (KIP-890).
	TransactionVersion int16
	newProducerID      int64
}

// EndResponse answers an EndRequest. The producer is what the next transaction is to be done with.
type EndResponse struct {
	Code     ErrorCode
	Producer Producer
}

// Description is what DescribeTransactions tells.
type Description struct {
	Code            ErrorCode
	TransactionalID string
	Producer        Producer
	State           State
	TimeoutMS       int32
	// StartMS is when the first partition was added, -1 if there is none.
	StartMS int64
	// Partitions are those of the open transaction that have no marker yet, sorted.
	Partitions []TopicPartition
}

// ListRequest narrows ListTransactions.
type ListRequest struct {
	// States are those wanted, all if empty.
	States []State
	// NoState says that states were asked for of which none is known: nothing is listed.
	NoState bool
	// ProducerIDs are those wanted, all if empty.
	ProducerIDs []int64
	// LongerThan lists transactions that run for longer; negative for all (KIP-994).
	LongerThan time.Duration
	// Match tells whether a transactional id is wanted, nil for all (KIP-1152).
	Match func(id string) bool
}

// ListResponse answers a ListRequest, sorted by id.
type ListResponse struct {
	Code         ErrorCode
	Transactions []Listed
}

// Listed is one transactional id in a list.
type Listed struct {
	TransactionalID string
	ProducerID      int64
	State           State
}

// needProducerID is the machine's answer to a request it cannot decide without a new producer id:
// the caller asks again with one.
type needProducerID struct{}

type describeInput struct{ id string }

type listInput struct{ ListRequest }

// markersWritten says that every partition of a decided transaction has its marker.
type markersWritten struct {
	id       string
	producer Producer
}
