//go:build unix

package plugintest

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// drainLimit is how long a part may take to finish after Drain.
const drainLimit = 5 * time.Second

// Common is what every kind of case says.
type Common struct {
	Command host.Command
	Part    string // name of the part; "" = the only one of its kind
	Config  string // JSON, a valid configuration
	// BadConfig is a configuration to be refused, at the JSON pointer BadPointer.
	BadConfig  string
	BadPointer string
}

func (c *Common) start(t *testing.T) *host.Plugin {
	t.Helper()
	p, err := host.Start(t.Context(), host.Options{Name: t.Name(), Command: c.Command})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// testSpec checks that the plugin says what it is.
func (c *Common) testSpec(t *testing.T, kind pluginpb.Kind) {
	p := c.start(t)
	spec := p.Spec()
	require.NotEmpty(t, spec.Name)
	found := false
	for _, part := range spec.Parts {
		if part.Kind == kind && (part.Name == c.Part || c.Part == "") {
			found = true
			require.Contains(t, string(part.ConfigSchema), `"type":"object"`)
		}
	}
	require.True(t, found, "no %s named %q in the Spec", kind, c.Part)
}

// testConfig checks that a good configuration passes and a bad one is refused at its place.
func (c *Common) testConfig(t *testing.T) {
	p := c.start(t)
	found, err := p.Validate(t.Context(), c.Part, []byte(c.Config))
	require.NoError(t, err)
	require.Empty(t, found)
	found, err = p.Validate(t.Context(), c.Part, []byte(c.BadConfig))
	require.NoError(t, err)
	require.NotEmpty(t, found, "the bad configuration passes")
	var pointers []string
	for _, d := range found {
		require.NotEmpty(t, d.Message)
		pointers = append(pointers, d.Pointer)
	}
	require.Contains(t, pointers, c.BadPointer)
}

// testLifeline checks that the process ends when its host is gone, without a signal.
func (c *Common) testLifeline(t *testing.T) {
	sockets, err := os.MkdirTemp("/tmp", "plugintest") // short enough for a socket
	require.NoError(t, err)
	defer os.RemoveAll(sockets)
	hold, lifeline, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(c.Command.Path, c.Command.Args...)
	cmd.Env = append([]string{
		pluginpb.CookieKey + "=" + pluginpb.CookieValue, pluginpb.LifelineEnv + "=3",
		"PLUGIN_PROTOCOL_VERSIONS=1", pluginpb.SocketDirEnv + "=" + sockets,
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
	}, c.Command.Env...)
	cmd.Dir, cmd.ExtraFiles = c.Command.Dir, []*os.File{hold}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	require.NoError(t, hold.Close())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(line, "1|1|unix|"), "the first line is %q", line)
	require.NoError(t, lifeline.Close())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(drainLimit):
		t.Fatal("the process lives on after the end of its lifeline")
	}
}

// kill ends the plugin's process as a crash would.
func kill(t *testing.T, p *host.Plugin) {
	t.Helper()
	if pid := p.PID(); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			require.NoError(t, err) // it may have died of the kill before
		}
	}
}

// within checks that f returns in time.
func within(t *testing.T, limit time.Duration, what string, f func() error) {
	t.Helper()
	began := time.Now()
	require.NoError(t, f())
	require.Less(t, time.Since(began), limit, what)
}
