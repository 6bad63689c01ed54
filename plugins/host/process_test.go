//go:build linux

package host_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
)

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

func TestStartErrorsNameThePluginAndTheReason(t *testing.T) {
	faulty := buildPlugin(t, "faulty")
	liar := buildPlugin(t, "liar")
	cases := map[string]struct {
		command host.Command
		want    []string
	}{
		"no file":      {host.Command{Path: "/does/not/exist"}, []string{"no such file or directory"}},
		"not a binary": {host.Command{Path: "host_test.go"}, []string{"not an executable file"}},
		"directory":    {host.Command{Path: "/tmp"}, []string{"not an executable file"}},
		"true":         {host.Command{Path: "/bin/true"}, []string{"not a plugin", "exit status 0"}},
		"exit": {
			host.Command{Path: faulty, Env: []string{"FAULT_AT_START=exit"}},
			[]string{"exit status 7", "before the handshake", "cannot find my license"},
		},
		"panic": {
			host.Command{Path: faulty, Env: []string{"FAULT_AT_START=panic"}},
			[]string{"exit status 2", "panic: bad start"},
		},
		"hang": {
			host.Command{Path: faulty, Env: []string{"FAULT_AT_START=hang"}},
			[]string{"printed no handshake within 500ms"},
		},
		"garbage": {host.Command{Path: script(t, "echo hello; sleep 100")},
			[]string{`it printed "hello" instead of the handshake`}},
		"garbage long": {host.Command{Path: script(t,
			"head -c 1000000 /dev/zero | tr '\\0' x; sleep 100")}, []string{`it printed "xxxx`}},
		"core": {host.Command{Path: script(t, "echo '7|1|unix|/tmp/x|grpc'; sleep 100")},
			[]string{"is not a plugin"}},
		"version": {host.Command{Path: script(t, "echo '1|9|unix|/tmp/x|grpc'; sleep 100")},
			[]string{"another protocol version", "Plugin version: 9"}},
		"netrpc": {host.Command{Path: script(t, "echo '1|1|unix|/tmp/x|netrpc'; sleep 100")},
			[]string{"unsupported plugin protocol"}},
		"service": {host.Command{Path: liar, Env: []string{"LIE=service"}},
			[]string{"not a Millstream plugin"}},
		"protocol": {host.Command{Path: liar, Env: []string{"LIE=protocol"}},
			[]string{"speaks protocol 7 to 9, this host 1"}},
		"checksum": {host.Command{Path: faulty, SHA256: strings.Repeat("0", 64)},
			[]string{"another checksum"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := time.Minute
			if name == "hang" {
				limit = 500 * time.Millisecond
			}
			_, err := host.Start(t.Context(), host.Options{
				Name: "fraud", Command: c.command, StartTimeout: limit,
			})
			require.Error(t, err)
			require.ErrorContains(t, err, `plugin "fraud"`)
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
			if name == "checksum" {
				require.ErrorIs(t, err, host.ErrChecksum)
			} else {
				require.ErrorIs(t, err, host.ErrStart)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := host.Start(ctx, host.Options{Name: "slow", Command: host.Command{Path: script(t,
		"sleep 100")}})
	require.ErrorIs(t, err, host.ErrStart)
	require.ErrorContains(t, err, "cancelled")
}

func TestStartChecksumRunsTheCheckedFile(t *testing.T) {
	bin := buildPlugin(t, "faulty")
	sum, err := host.Checksum(bin)
	require.NoError(t, err)
	p := startFaulty(t, host.Options{Command: host.Command{Path: bin, SHA256: sum}})
	op := openFaulty(t, p, `{"fault":"none"}`)
	r, err := op.Process(t.Context(), records(0, 3))
	require.NoError(t, err)
	requireEcho(t, records(0, 3), r, nil)
}

func TestPrintsBeforeServeReachTheLog(t *testing.T) {
	var log logBuffer
	p := startFaulty(t, host.Options{Logger: log.logger(), Command: host.Command{
		Path: buildPlugin(t, "faulty"), Env: []string{"FAULT_AT_START=noise"},
	}})
	op := openFaulty(t, p, `{"fault":"noise","at":0}`)
	_, err := op.Process(t.Context(), records(0, 1))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	for _, want := range []string{"noise before serve without a newline", "raw noise",
		"noise on stdout"} {
		require.Contains(t, log.String(), want)
	}
}

func TestPluginLogReachesTheLogWithItsTask(t *testing.T) {
	var log logBuffer
	p := startFaulty(t, host.Options{Logger: log.logger()})
	op := openFaulty(t, p, `{"fault":"noise","at":3}`)
	_, err := op.Process(t.Context(), records(0, 5))
	require.NoError(t, err)
	require.NoError(t, op.Close())
	require.Contains(t, log.String(), `level=WARN msg=seen plugin=faulty part=op task=0 offset=3`)
}

func TestFloodIsBounded(t *testing.T) {
	var log logBuffer
	p := startFaulty(t, host.Options{Logger: log.logger()})
	op := openFaulty(t, p, `{"fault":"flood","every":1}`)
	_, err := op.Process(t.Context(), records(0, 20)) // 160 MiB of output
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.Less(t, len(log.String()), 32<<20)
}

func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("DATABASE_PASSWORD", "hunter2")
	var log logBuffer
	p := startFaulty(t, host.Options{Logger: log.logger(), Command: host.Command{
		Path: buildPlugin(t, "faulty"), Env: []string{"FAULT_AT_START=env", "MINE=yes"},
	}})
	require.NoError(t, p.Close())
	require.Contains(t, log.String(), "env: MINE=yes")
	require.NotContains(t, log.String(), "hunter2")
	require.NotContains(t, log.String(), "MILLSTREAM_PLUGIN_COOKIE")
}

// stopped says whether all threads of a process are.
func stopped(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range tasks {
		raw, e := os.ReadFile(path)
		if e != nil || raw[bytes.LastIndexByte(raw, ')')+2] != 'T' {
			return false
		}
	}
	return err == nil && len(tasks) > 0
}

// running says whether a process exists and is no zombie.
func running(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := raw[bytes.LastIndexByte(raw, ')')+2]
	return state != 'Z' && state != 'X'
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !running(pid) }, time.Minute, 5*time.Millisecond,
		"process %d still runs", pid)
}

func pidIn(t *testing.T, log, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(log)
	require.NotNil(t, m, log)
	pid, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return pid
}

func TestCloseEndsTheWholeGroupAndCleansUp(t *testing.T) {
	var log logBuffer
	p := startFaulty(t, host.Options{Logger: log.logger(), Command: host.Command{
		Path: buildPlugin(t, "faulty"), Env: []string{"FAULT_AT_START=child"},
	}})
	pid := p.PID()
	var child int
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "child: ") },
		time.Minute, time.Millisecond)
	child = pidIn(t, log.String(), `child: (\d+)`)
	require.True(t, running(child))
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group)
	dir := filepath.Dir(socketDirOf(t, pid))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, p.Close())
	requireGone(t, pid)
	requireGone(t, child)
	require.NoDirExists(t, dir)
}

// socketDirOf reads from a plugin's environment where its socket is.
func socketDirOf(t *testing.T, pid int) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	require.NoError(t, err)
	for kv := range strings.SplitSeq(string(raw), "\x00") {
		if dir, ok := strings.CutPrefix(kv, "PLUGIN_UNIX_SOCKET_DIR="); ok {
			return dir
		}
	}
	t.Fatal("no socket directory in the environment")
	return ""
}

// TestHostProcess is the host that TestNoOrphanAfterHostIsKilled kills; run alone it does nothing.
func TestHostProcess(t *testing.T) {
	bin := os.Getenv("HOST_PROCESS_PLUGIN")
	if bin == "" {
		return
	}
	p, err := host.Start(context.Background(), host.Options{
		Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		Name:   "orphan", Command: host.Command{Path: bin, Env: []string{"FAULT_AT_START=child"}},
	})
	require.NoError(t, err)
	fmt.Printf("plugin: %d\n", p.PID())
	_, _ = fmt.Fprintf(os.Stdout, "ready\n")
	select {}
}

func TestNoOrphanAfterHostIsKilled(t *testing.T) {
	t.Run("running", func(t *testing.T) { killHost(t, false) })
	t.Run("stopped", func(t *testing.T) { killHost(t, true) })
}

func killHost(t *testing.T, stop bool) {
	var out logBuffer
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHostProcess$")
	cmd.Env = append(os.Environ(), "HOST_PROCESS_PLUGIN="+buildPlugin(t, "faulty"))
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "ready") },
		time.Minute, time.Millisecond)
	pid := pidIn(t, out.String(), `plugin: (\d+)`)
	child := pidIn(t, out.String(), `child: (\d+)`)
	require.True(t, running(pid) && running(child))
	if stop {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		// The kernel continues a group that has stopped, not one that is about to.
		require.Eventually(t, func() bool { return stopped(pid) }, time.Minute, time.Millisecond)
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	requireGone(t, pid)
	requireGone(t, child)
}

// TestLifelineEndsThePlugin starts a plugin without the parent-death signal, as on other systems.
func TestLifelineEndsThePlugin(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	sockets, err := os.MkdirTemp("/tmp", "lifeline") // short enough for a socket
	require.NoError(t, err)
	defer os.RemoveAll(sockets)
	cmd := exec.Command(buildPlugin(t, "faulty"))
	cmd.Env = []string{
		"MILLSTREAM_PLUGIN_COOKIE=5f2d3c1e-millstream-plugin-v1", "MILLSTREAM_PLUGIN_LIFELINE_FD=3",
		"PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=" +
			sockets, "FAULT_AT_START=child", "PATH=" + os.Getenv("PATH"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{r}
	var out, errs logBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	require.NoError(t, r.Close())
	require.Eventually(t, func() bool { return strings.HasPrefix(out.String(), "1|1|unix|") },
		time.Minute, time.Millisecond, "%s", errs.String())
	child := pidIn(t, errs.String(), `child: (\d+)`)
	require.NoError(t, w.Close())
	requireGone(t, cmd.Process.Pid)
	requireGone(t, child)
	require.NoDirExists(t, sockets)
	_ = cmd.Wait()
}

func TestRunByHandSaysWhatItIs(t *testing.T) {
	out, err := exec.Command(buildPlugin(t, "faulty")).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 2, exit.ExitCode())
	for _, want := range []string{
		"faulty 1.2.3 is a Millstream plugin", "Fails as it is told.", "operator  op", "source    count",
		"count: integer, default 100", "plugins:",
	} {
		require.Contains(t, strings.ReplaceAll(string(out), "an integer", "integer"), want)
	}
}

func TestStartUsesTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	p := startFaulty(t, host.Options{Command: host.Command{Path: buildPlugin(t, "faulty"), Dir: dir}})
	got, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID()))
	require.NoError(t, err)
	require.Equal(t, dir, got)
}
