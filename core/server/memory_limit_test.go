package server

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// F19: what requests in flight may take follows the memory limit of the process: with the 256 MiB
// of a large machine, 200 clients that produce 1 MiB at once got a process of 100 MiB killed.
func TestF19_RequestMemoryFollowsTheMemoryLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for limit, want := range map[int64]int64{
		64 << 20: 16 << 20, 256 << 20: 64 << 20, 1 << 20: 4 << 20, 4 << 30: 256 << 20,
	} {
		debug.SetMemoryLimit(limit)
		var l Limits
		l.withDefaults()
		require.Equal(t, want, l.MemoryBytes, "of %d", limit)
	}
}
