package server

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
)

// TestRule9_CoordinatorTroubleIsNotEnoughReplicas: what passes is told to producers as
// NOT_ENOUGH_REPLICAS, which all of them try again; only those of version 12 know
// CONCURRENT_TRANSACTIONS. What does not pass keeps its code, except for codes that older producers
// do not have.
func TestRule9_CoordinatorTroubleIsNotEnoughReplicas(t *testing.T) {
	for _, v := range []struct {
		code          coordinator.ErrorCode
		v10, v11, v12 int16
	}{
		{coordinator.CodeNone, 0, 0, 0},
		{coordinator.CodeCoordinatorLoadInProgress, 19, 19, 19},
		{coordinator.CodeCoordinatorNotAvailable, 19, 19, 19},
		{coordinator.CodeNotCoordinator, 19, 19, 19},
		{coordinator.CodeConcurrentTransactions, 19, 19, 51},
		{coordinator.CodeProducerFenced, 47, 47, 47},
		{coordinator.CodeInvalidProducerEpoch, 47, 47, 47},
		{coordinator.CodeTransactionAbortable, 48, 120, 120},
		{coordinator.CodeInvalidProducerIDMapping, 49, 49, 49},
	} {
		for i, want := range []int16{v.v10, v.v11, v.v12} {
			version := int16(10 + i)
			require.Equal(t, want, errorCode(verificationError(v.code, version)),
				fmt.Sprint(v.code, " in version ", version))
		}
	}
}
