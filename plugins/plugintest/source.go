//go:build unix

package plugintest

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Source is a case for TestSource: a bounded source of some hundred records or more.
type Source struct {
	Common
}

// TestSource proves a source binary.
func TestSource(t *testing.T, s Source) {
	t.Run("spec", func(t *testing.T) { s.testSpec(t, pluginpb.Kind_KIND_SOURCE) })
	t.Run("config", s.testConfig)
	t.Run("lifeline", s.testLifeline)
	t.Run("resume", s.testResume)
	t.Run("kill", s.testKill)
	t.Run("credits and drain", s.testDrain)
}

// taken is one batch a source gave.
type taken struct {
	records  []string
	position host.Position
}

func (s *Source) open(t *testing.T, p *host.Plugin, from host.Position) *host.Source {
	t.Helper()
	src, err := p.Source(t.Context(), host.SourceOptions{
		Part: s.Part, Config: []byte(s.Config), Position: from,
	})
	require.NoError(t, err)
	return src
}

// read reads to the end; killAt > 0 kills the process after so many batches.
func (s *Source) read(t *testing.T, p *host.Plugin, src *host.Source, killAt int) (all []taken) {
	t.Helper()
	for {
		b, err := src.Read(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		x := taken{position: b.Position}
		failed := map[int]string{}
		for _, e := range b.Errors {
			failed[e.Index] = e.Class + ": " + e.Message
		}
		for i, r := range b.Records {
			x.records = append(x.records,
				fmt.Sprintf("%s/%d %q %s %s", r.Topic, r.Offset, r.Key, r.Value, failed[i]))
		}
		all = append(all, x)
		if b.Position != nil {
			require.NoError(t, src.Commit(t.Context(), b.Position))
		}
		b.Release()
		if len(all) == killAt {
			kill(t, p)
		}
	}
}

func joined(all []taken) (out []string) {
	for _, x := range all {
		out = append(out, x.records...)
	}
	return out
}

// testResume checks that from each position the source goes on exactly where it was.
func (s *Source) testResume(t *testing.T) {
	p := s.start(t)
	all := s.read(t, p, s.open(t, p, nil), 0)
	want := joined(all)
	require.NotEmpty(t, want)
	require.NotEmpty(t, all[len(all)-1].position, "no position after the last record")
	before := 0
	for i, x := range all {
		before += len(x.records)
		if x.position == nil || i > 3 && i < len(all)-3 {
			continue
		}
		src := s.open(t, p, x.position)
		require.Equal(t, want[before:], append([]string{}, joined(s.read(t, p, src, 0))...))
		require.NoError(t, src.Close())
	}
}

// testKill checks that nothing is lost or doubled when the process ends in the middle.
func (s *Source) testKill(t *testing.T) {
	p := s.start(t)
	want := joined(s.read(t, p, s.open(t, p, nil), 0))
	for _, at := range []int{1, 2} {
		q := s.start(t)
		require.Equal(t, want, joined(s.read(t, q, s.open(t, q, nil), at)))
	}
}

// testDrain checks that a source whose records nobody takes still answers a commit and a drain.
func (s *Source) testDrain(t *testing.T) {
	p := s.start(t)
	src := s.open(t, p, nil)
	b, err := src.Read(t.Context())
	require.NoError(t, err)
	if b.Position != nil {
		within(t, drainLimit, "commit", func() error { return src.Commit(t.Context(), b.Position) })
	}
	within(t, drainLimit, "drain", src.Close)
}
