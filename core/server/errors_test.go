package server

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestBug_kop1032_NoErrorGivesAForeignCode: of all errors that have a code, none gives a fetch one
// that the consumer of Kafka 4.4.0 does not handle: it handles these.
func TestBug_kop1032_NoErrorGivesAForeignCode(t *testing.T) {
	handled := []int16{-1, 1, 2, 3, 6, 9, 29, 56, 74, 75, 78, 100, 103}
	for _, row := range errorCodes {
		require.Contains(t, handled, fetchCode(row.err), row.err.Error())
		require.Contains(t, handled, fetchCode(row.code), row.code.Message)
	}
	require.Equal(t, int16(-1), fetchCode(kerr.RequestTimedOut))
	require.Equal(t, int16(1), fetchCode(kerr.OffsetOutOfRange))
	require.Zero(t, fetchCode(nil))
}
