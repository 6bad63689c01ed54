//go:build unix

package plugintest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Sink is a case for TestSink.
type Sink struct {
	Common
	// Values are what is written, ten or more.
	Values []string
	// Written returns the values the sink wrote so far, in order; nil leaves out what needs it.
	Written func(t *testing.T) []string
	// Reset makes the sink's target empty, for the next check.
	Reset func(t *testing.T)
	// ExactlyOnce says that after a crash nothing is there twice.
	ExactlyOnce bool
}

// TestSink proves a sink binary.
func TestSink(t *testing.T, s Sink) {
	t.Run("spec", func(t *testing.T) { s.testSpec(t, pluginpb.Kind_KIND_SINK) })
	t.Run("config", s.testConfig)
	t.Run("lifeline", s.testLifeline)
	t.Run("write and drain", func(t *testing.T) { s.testWrite(t, false) })
	t.Run("kill and resend", func(t *testing.T) { s.testWrite(t, true) })
	if s.ExactlyOnce {
		t.Run("resume", s.testResume)
	}
}

func (s *Sink) open(t *testing.T, p *host.Plugin, committed []host.TopicOffset) *host.Sink {
	t.Helper()
	snk, err := p.Sink(t.Context(), host.SinkOptions{
		Part: s.Part, Config: []byte(s.Config), Committed: committed,
	})
	require.NoError(t, err)
	return snk
}

// batch makes records of the values, with offsets from first on.
func (s *Sink) batch(first int64) []host.Record {
	out := make([]host.Record, len(s.Values))
	for i, v := range s.Values {
		out[i] = NewRecord("", v)
		out[i].Offset = first + int64(i)
	}
	return out
}

func (s *Sink) testWrite(t *testing.T, killed bool) {
	s.Reset(t)
	p := s.start(t)
	snk := s.open(t, p, nil)
	var flying []*host.Pending
	var want []string
	for i := range 30 {
		f, err := snk.Submit(t.Context(), s.batch(int64(i*len(s.Values))))
		require.NoError(t, err)
		flying, want = append(flying, f), append(want, s.Values...)
		if killed && i%10 == 9 {
			kill(t, p)
		}
	}
	for _, f := range flying {
		r, err := f.Wait(t.Context())
		require.NoError(t, err)
		require.Empty(t, r.Errors())
	}
	require.Equal(t, []host.TopicOffset{{Topic: "test", Offset: int64(len(want))}}, snk.Committed())
	within(t, drainLimit, "drain", snk.Close)
	if s.Written != nil && (!killed || s.ExactlyOnce) {
		require.Equal(t, want, s.Written(t))
	}
}

// testResume writes the same again, as a host does that crashed before it noted the
// acknowledgement.
func (s *Sink) testResume(t *testing.T) {
	s.Reset(t)
	for range 3 {
		p := s.start(t)
		snk := s.open(t, p, nil)
		errs, err := snk.Write(t.Context(), s.batch(0))
		require.NoError(t, err)
		require.Empty(t, errs)
		require.NoError(t, p.Close())
		require.Equal(t, s.Values, s.Written(t))
	}
}
