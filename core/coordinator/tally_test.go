package coordinator_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
)

func TestTallyForgetsMachinesThatEnded(t *testing.T) {
	var tally coordinator.Tally
	a, b := tally.Begin(0), tally.Begin(1)
	a.Set(3)
	b.Set(4)
	b.Set(2)
	require.EqualValues(t, 5, tally.Total())
	require.True(t, a.Full(5))
	require.False(t, a.Full(6))
	require.False(t, a.Full(0), "no bound")
	again := tally.Begin(0)
	require.EqualValues(t, 2, tally.Total())
	a.Set(100) // an old machine that has not noticed
	require.EqualValues(t, 2, tally.Total())
	again.Set(1)
	require.EqualValues(t, 3, tally.Total())
	var none *coordinator.Share
	none.Set(1)
	require.False(t, none.Full(1))
}
