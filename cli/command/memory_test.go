package command

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryPolicyGivesWay: GOMEMLIMIT and GOGC of the environment are left as they are.
func TestMemoryPolicyGivesWay(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(before)
		debug.SetGCPercent(percent)
	})
	debug.SetMemoryLimit(math.MaxInt64)
	t.Setenv("GOMEMLIMIT", "1GiB")
	t.Setenv("GOGC", "100")
	limitMemory()
	require.EqualValues(t, math.MaxInt64, debug.SetMemoryLimit(-1))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	keepMemorySmall(ended)
	require.Equal(t, 100, debug.SetGCPercent(100))

	require.NoError(t, os.Unsetenv("GOMEMLIMIT"))
	require.NoError(t, os.Unsetenv("GOGC"))
	limitMemory()
	total := machineMemory()
	require.Positive(t, total)
	require.Equal(t, max(total/4, 256<<20), debug.SetMemoryLimit(-1))
	keepMemorySmall(ended)
	require.Equal(t, 400, debug.SetGCPercent(100))
}

// TestForgottenBinaryComesBack: code and tables work as before when they are needed again.
func TestForgottenBinaryComesBack(t *testing.T) {
	for range 3 {
		forgetBinary()
		debug.FreeOSMemory()
		require.NotEmpty(t, helpErrorsProbe())
	}
}

func helpErrorsProbe() string { return newRootCommand(newApp(Streams{})).Long }
