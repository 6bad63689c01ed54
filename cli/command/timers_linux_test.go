package command

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTimersAreLoosened: for the caller's thread always, for all that were there where the process
// may do that.
func TestTimersAreLoosened(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := fmt.Sprint(syscall.Gettid())
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	loosenTimers()
	loose := 0
	for _, thread := range threads {
		slack, err := os.ReadFile("/proc/" + thread.Name() + "/timerslack_ns")
		isLoose := err == nil && strings.TrimSpace(string(slack)) == "250000"
		if isLoose {
			loose++
		}
		require.True(t, isLoose || thread.Name() != own, "%s", slack)
	}
	if os.Geteuid() == 0 {
		require.Greater(t, loose, 1, "of %d threads", len(threads))
	}
}
