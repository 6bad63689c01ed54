package server

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/txn"
)

// transactionHandlers lists the APIs of transactions, but for TxnOffsetCommit.
var transactionHandlers = []handler{
	{key: 22, min: 0, max: 5, handle: (*Server).initProducerID},
	{key: 24, min: 0, max: 5, handle: (*Server).addPartitionsToTxn},
	{key: 25, min: 0, max: 4, handle: (*Server).addOffsetsToTxn},
	{key: 26, min: 0, max: 5, handle: (*Server).endTxn},
	{key: 27, min: 1, max: 2, handle: (*Server).writeTxnMarkers},
	{key: 65, min: 0, max: 0, handle: (*Server).describeTransactions},
	{key: 66, min: 0, max: 2, handle: (*Server).listTransactions},
}

// fencedCode is code for a client of a request's version: those before version since know
// INVALID_PRODUCER_EPOCH in the place of PRODUCER_FENCED.
func fencedCode(code txn.ErrorCode, version, since int16) int16 {
	if code == coordinator.CodeProducerFenced && version < since {
		return kerr.InvalidProducerEpoch.Code
	}
	return int16(code)
}

// transactionVersion is that of a client which sends a request whose version since knows KIP-890.
func transactionVersion(version, since int16) int16 {
	if version >= since {
		return 2
	}
	return 0
}
