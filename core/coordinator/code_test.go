package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestBug_crabka212_CodesAreThoseOfTheProtocol: 82, FENCED_INSTANCE_ID, and 113,
// STALE_MEMBER_EPOCH, were mixed up. Every code has the name that clients know for its number.
func TestBug_crabka212_CodesAreThoseOfTheProtocol(t *testing.T) {
	for code, name := range codeNames {
		if code == CodeNone {
			continue
		}
		known := kerr.TypedErrorForCode(int16(code))
		require.NotNil(t, known, name)
		require.Equal(t, known.Message, name)
	}
	require.EqualValues(t, 82, CodeFencedInstanceID)
	require.EqualValues(t, 113, CodeStaleMemberEpoch)
}
