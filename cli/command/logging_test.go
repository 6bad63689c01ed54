package command

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLogFormatIsAsAsked: JSON for collectors unless text is asked for; a file is no terminal.
func TestLogFormatIsAsAsked(t *testing.T) {
	for format, want := range map[string]string{
		"auto": `"msg":"started","partition":"t-0","took":"1.5s"}`,
		"json": `"msg":"started","partition":"t-0","took":"1.5s"}`,
		"text": `msg=started partition=t-0 took=1.5s`,
	} {
		var b bytes.Buffer
		logger, err := newLogger(&b, slog.LevelInfo, format)
		require.NoError(t, err)
		logger.Info("started", "partition", "t-0", "took", 1500*time.Millisecond)
		require.Contains(t, b.String(), want)
	}
	_, err := newLogger(new(bytes.Buffer), slog.LevelInfo, "xml")
	require.ErrorContains(t, err, "unknown log format xml")
}
