package command

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBootstrapPrecedence asks nobody: each source names another address that refuses, and the
// error names the one that was used.
func TestBootstrapPrecedence(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	inside := filepath.Join(project, "a", "b")
	require.NoError(t, os.MkdirAll(inside, 0o755))
	t.Chdir(inside)
	t.Setenv("XDG_CONFIG_HOME", home)
	used := func(args ...string) string {
		r := run(t, append([]string{"topic", "ls"}, args...)...)
		require.Equal(t, 3, r.exit, r.err)
		_, after, _ := strings.Cut(r.err, "no broker answers at ")
		address, _, _ := strings.Cut(after, "\n")
		return address
	}
	writeFile(t, filepath.Join(home, "millstream", "config.yaml"), "bootstrap: 127.0.0.1:1\n")
	require.Equal(t, "127.0.0.1:1", used())
	writeFile(t, filepath.Join(project, projectFile), "bootstrap: [127.0.0.1:2, 127.0.0.1:3]\n")
	require.Equal(t, "127.0.0.1:2,127.0.0.1:3", used(), "the project's file is above this folder")
	t.Setenv("KAFKA_BROKERS", "127.0.0.1:4")
	require.Equal(t, "127.0.0.1:4", used())
	t.Setenv("MILLSTREAM_BOOTSTRAP", "127.0.0.1:5")
	require.Equal(t, "127.0.0.1:5", used())
	require.Equal(t, "127.0.0.1:6", used("--bootstrap", "127.0.0.1:6"))
}

func TestSettingsReachTheirCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, projectFile, "output: json\nno-headers: true\n")
	require.True(t, strings.HasPrefix(run(t, "version").out, "{"))
	t.Setenv("MILLSTREAM_OUTPUT", "table")
	require.True(t, strings.HasPrefix(run(t, "version").out, "millstream "))
	require.NotContains(t, run(t, "plugin", "ls").out, "NAME")
	t.Setenv("MILLSTREAM_NO_HEADERS", "false")
	require.Contains(t, run(t, "plugin", "ls").out, "NAME")
	t.Setenv("MILLSTREAM_DATA_DIR", "/nowhere/at/all")
	require.Contains(t, run(t, "doctor", "--check", "data_dir.free").out, " in /")
}

func TestSettingsFilesAreCheckedKeyByKey(t *testing.T) {
	for text, want := range map[string]string{
		"bootstrp: x:1\n":           `there is no setting "bootstrp", did you mean "bootstrap"?`,
		"zzzzzzzzzzzz: 1\n":         "use bootstrap, data-dir, http",
		"quiet: maybe\n":            "quiet: maybe is not true or false",
		"listen: 9092\n":            "listen: 9092 is not a text",
		"listen: [a]\n":             "listen: [a] is not a text",
		"broker: 3\n":               "broker: must be a mapping",
		"broker: {log: {dirs: x}}":  "broker: log: must be one value",
		"a: [\n":                    "cannot use the settings in",
		"- just\n- a list\n":        "cannot use the settings in",
		"bootstrap: {host: here}\n": "bootstrap: map[host:here] is not a text",
	} {
		t.Chdir(t.TempDir())
		writeFile(t, projectFile, text)
		r := run(t, "version")
		require.Equal(t, 2, r.exit, text)
		require.Contains(t, r.err, "error[BAD_SETTINGS]", text)
		require.Contains(t, r.err, want, text)
	}
	t.Chdir(t.TempDir())
	writeFile(t, projectFile, "")
	require.Zero(t, run(t, "version").exit, "an empty file says nothing")
	t.Setenv("MILLSTREAM_QUIET", "perhaps")
	require.Contains(t, run(t, "version").err, "MILLSTREAM_QUIET=perhaps is not true or false")
}

// TestNoBrokerIsToldFast: a refused connection is told at once, one that is never answered within
// the time limit; both with exit 3 by every command that needs a broker.
func TestNoBrokerIsToldFast(t *testing.T) {
	for _, args := range [][]string{
		{"topic", "ls"}, {"topic", "describe", "x"}, {"topic", "create", "x"},
		{"topic", "delete", "x", "--yes"}, {"topic", "alter", "x", "--partitions", "2"},
		{"produce", "x"}, {"consume", "x"}, {"group", "ls"}, {"group", "describe", "x"},
		{"group", "delete", "x", "--yes"}, {"pipeline", "ls"}, {"pipeline", "status", "x"},
		{"pipeline", "stop", "x"}, {"pipeline", "logs", "x"}, {"replay", "run", "x", "--as", "y"},
		{"replay", "status", "x"}, {"replay", "verify", "x"}, {"bench", "produce"},
	} {
		begin := time.Now()
		r := run(t, append(args, "--bootstrap", "127.0.0.1:1")...)
		require.Equal(t, 3, r.exit, "%v: %s", args, r.err)
		require.Contains(t, r.err, "error[BROKER_UNREACHABLE]: no broker answers at 127.0.0.1:1", args)
		require.Empty(t, r.out, args)
		require.Less(t, time.Since(begin), dialTimeout, args)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	r := run(t, "topic", "ls", "--bootstrap", silent.Addr().String())
	require.Equal(t, 3, r.exit)
	require.Contains(t, r.err, "error[BROKER_UNREACHABLE]")
}
