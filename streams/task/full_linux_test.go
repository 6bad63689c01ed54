package task

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// fullDisk tells the child process of the test where to mount its small disk.
const fullDisk = "MILLSTREAM_TEST_FULL_DISK"

// TestFullDiskStopsATaskAtItsBound runs in a process that mounts a file system of 16 MiB and fills
// it. Rows that the file does not take stay in memory; when they are as many as may stay there, the
// task ends with a reason that can pass. With space it goes on where it was.
func TestFullDiskStopsATaskAtItsBound(t *testing.T) {
	if dir := os.Getenv(fullDisk); dir != "" {
		require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"))
		onFullDisk(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDiskStopsATaskAtItsBound$", "-test.v")
	cmd.Env = append(os.Environ(), fullDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if id := os.Getuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: id, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func onFullDisk(t *testing.T, dir string) {
	m := filled(t, 1, 10)
	_, err := runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())

	for i := range 200 { // 2 MiB of rows; with a budget this small one task may keep 1 MiB
		key := make([]byte, 10<<10)
		key[0] = byte(i)
		require.NoError(t, m.Append(client.TopicPartition{Topic: "in"}, record.Record{Key: key}))
	}
	o := countOptions(m, 1, dir)
	o.State.FlushInterval, o.State.Budget = 1, state.NewBudget(1)
	w, err := runWorker(t.Context(), t, o)
	require.ErrorIs(t, err, ErrStateFull)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Less(t, w.Status().Tasks[0].Processed, int64(200))

	require.NoError(t, os.Remove(ballast))
	_, err = runWorker(t.Context(), t, countOptions(m, 1, dir))
	require.NoError(t, err)
	requireLanes(t, expected(m, 1), lanesOf(t, m, outTopics))
}
