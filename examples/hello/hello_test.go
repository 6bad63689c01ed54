package hello_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/cli/command"
)

// TestMain serves connectors when the pipeline under test starts this binary again as their
// process.
func TestMain(m *testing.M) {
	if command.IsConnectorProcess(os.Args) {
		os.Exit(command.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// TestHelloGreetsEveryOtherTick reads the rows that dev prints: of the ids 0 to 19 the even ones.
func TestHelloGreetsEveryOtherTick(t *testing.T) {
	var stdout, stderr bytes.Buffer
	exit := command.Run(t.Context(), []string{"dev", ".", "--until-done", "--data-dir", t.TempDir(),
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"},
		command.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	require.Zero(t, exit, "%s", stderr.String())
	require.Contains(t, stderr.String(), "20 records in, 10 out")
	greeted := map[int64]string{}
	for line := range strings.Lines(stdout.String()) {
		value, ok := strings.CutPrefix(line, "greetings  ")
		if !ok {
			continue
		}
		var row struct {
			ID       int64  `json:"id"`
			Greeting string `json:"greeting"`
		}
		require.NoError(t, json.Unmarshal([]byte(value), &row))
		greeted[row.ID] = row.Greeting
	}
	require.NotEmpty(t, greeted)
	for id, text := range greeted {
		require.Zero(t, id%2, "an odd one came through")
		require.Equal(t, fmt.Sprintf("hello %d", id), text)
	}
}
