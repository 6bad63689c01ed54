package streamstest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/topology"
)

// driven runs a topology through the driver; crash makes it go back to the last commit after each
// line.
type driven struct {
	d     *streamstest.Driver
	crash bool
}

func onDriver(crash bool) func(*testing.T, *topology.Builder) runner {
	return func(t *testing.T, b *topology.Builder) runner {
		d, err := streamstest.New(b, streamstest.Options{})
		require.NoError(t, err)
		return &driven{d: d, crash: crash}
	}
}

func (r *driven) feed(_ *testing.T, topic string, rec record.Record) { r.d.Feed(topic, 0, rec) }
func (r *driven) end(*testing.T)                                     { r.d.EndOfInput() }
func (r *driven) output(topic string) []streamstest.Record           { return r.d.Output(topic) }

func (r *driven) restart(t *testing.T) { require.NoError(t, r.d.Crash()) }

func (r *driven) settle(t *testing.T) {
	require.NoError(t, r.d.Run())
	if r.crash {
		require.NoError(t, r.d.Crash())
	}
}

// worked runs a topology by n workers over a log in memory. After each line, every task goes to
// the next worker.
type worked struct{ ws *streamstest.Workers }

func onWorkers(n int) func(*testing.T, *topology.Builder) runner {
	return func(t *testing.T, b *topology.Builder) runner {
		ws, err := streamstest.NewWorkers(b, n, t.TempDir(), streamstest.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, ws.Stop(false)) })
		return &worked{ws}
	}
}

func (r *worked) feed(t *testing.T, topic string, rec record.Record) {
	require.NoError(t, r.ws.Feed(topic, 0, rec))
}

func (r *worked) end(t *testing.T)                         { require.NoError(t, r.ws.EndOfInput()) }
func (r *worked) output(topic string) []streamstest.Record { return r.ws.Output(topic) }

func (r *worked) restart(t *testing.T) { require.NoError(t, r.ws.Move()) }

func (r *worked) settle(t *testing.T) {
	require.NoError(t, r.ws.Run())
	require.NoError(t, r.ws.Move())
}
