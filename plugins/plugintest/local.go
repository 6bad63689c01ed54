package plugintest

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// The types of the host that tests of connectors need.
type (
	// Command says how to start a plugin process.
	Command = host.Command
	// Record is a record with the place it comes from.
	Record = host.Record
	// RecordError is what became of a record instead of a result.
	RecordError = host.RecordError
	// TopicOffset is the next offset of a partition.
	TopicOffset = host.TopicOffset
)

// Self is the command that runs the test binary again; its TestMain serves the plugin when args are
// there.
func Self(t testing.TB, args ...string) Command {
	t.Helper()
	c, err := host.Self(args...)
	require.NoError(t, err)
	return c
}

// Start starts a plugin, in the test's process when command is nil. It ends with the test.
func Start(t testing.TB, p *sdk.Plugin, command *Command) *host.Plugin {
	t.Helper()
	o := host.Options{Name: "test", InProcess: p}
	if command != nil {
		o.InProcess, o.Command = nil, *command
	}
	h, err := host.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// Read is all a bounded source gave.
type Read struct {
	Records  []Record
	Errors   []RecordError // by index in Records
	Position []byte        // after the last record
}

// ReadAll reads a bounded source from a position to its end, in the test's process.
func ReadAll(t testing.TB, p sdk.Plugin, part, config string, position []byte) (Read, error) {
	t.Helper()
	src, err := Start(t, &p, nil).Source(t.Context(), host.SourceOptions{
		Part: part, Config: []byte(config), Position: position,
	})
	if err != nil {
		return Read{}, err
	}
	var all Read
	for {
		b, err := src.Read(t.Context())
		if errors.Is(err, io.EOF) {
			return all, src.Close()
		}
		if err != nil {
			return all, err
		}
		for _, e := range b.Errors {
			e.Index += len(all.Records)
			all.Errors = append(all.Errors, e)
		}
		all.Records = append(all.Records, b.Records...)
		if b.Position != nil {
			all.Position = b.Position
		}
	}
}

// Write opens a sink in the test's process, writes records as one batch and closes it.
func Write(
	t testing.TB, p sdk.Plugin, part, config string, committed []TopicOffset, records []Record,
) ([]RecordError, error) {
	t.Helper()
	h := Start(t, &p, nil)
	defer h.Close()
	snk, err := h.Sink(t.Context(), host.SinkOptions{
		Part: part, Config: []byte(config), Committed: committed,
	})
	if err != nil {
		return nil, err
	}
	return snk.Write(t.Context(), records)
}
