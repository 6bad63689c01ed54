package command

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/cli/output"
)

// TestDevLogIsForPeople expects a line as dev's others are, without what the screen says itself and
// without bytes that move the cursor.
func TestDevLogIsForPeople(t *testing.T) {
	var b bytes.Buffer
	screen := newDevScreen(&app{printer: &output.Printer{Err: &b}}, nil)
	log := slog.New(devLog{screen: screen, level: slog.LevelWarn}).With("pipeline", "p")
	log.Info("started")
	log.Error("pipeline failed", "error", "told by the screen")
	log.With("step", "s").Warn("records came late", "first", "a\x1b[2J\nb")
	require.Equal(t, `  warn     records came late  step=s  first=a\x1b[2J\nb`+"\n", b.String())
}
