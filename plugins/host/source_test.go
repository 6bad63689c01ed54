//go:build linux

package host_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
)

// readAll reads a source to its end, committing every batch.
func readAll(t *testing.T, s *host.Source, commit bool) (values []string, failed int) {
	t.Helper()
	for {
		b, err := s.Read(t.Context())
		if errors.Is(err, io.EOF) {
			return values, failed
		}
		require.NoError(t, err)
		for _, r := range b.Records {
			values = append(values, string(r.Value))
		}
		failed += len(b.Errors)
		if commit {
			require.NoError(t, s.Commit(t.Context(), b.Position))
		}
		b.Release()
	}
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func TestSourceReadsToItsEndAndCommits(t *testing.T) {
	p := startFaulty(t, host.Options{})
	commits := filepath.Join(t.TempDir(), "commits")
	s, err := p.Source(t.Context(), host.SourceOptions{
		Part: "count", Config: fmt.Appendf(nil, `{"count":1000,"commits":%q}`, commits),
	})
	require.NoError(t, err)
	values, failed := readAll(t, s, true)
	require.Equal(t, numbers(0, 1000), values)
	require.Equal(t, 20, failed) // 49, 99, ... are flagged, and there all the same
	_, err = s.Read(t.Context())
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, s.Close())
	raw, err := os.ReadFile(commits)
	require.NoError(t, err)
	require.Equal(t, 101, strings.Count(string(raw), "\n")) // 100 batches and the end
	require.True(t, strings.HasSuffix(string(raw), "\n1000\n"))
}

func TestSourceResumesAtPosition(t *testing.T) {
	p := startFaulty(t, host.Options{})
	s, err := p.Source(t.Context(), host.SourceOptions{
		Part: "count", Config: []byte(`{"count":100}`), Position: []byte("42"),
	})
	require.NoError(t, err)
	values, _ := readAll(t, s, false)
	require.Equal(t, numbers(42, 100), values)
	require.NoError(t, s.Close())
	_, err = p.Source(t.Context(), host.SourceOptions{
		Part: "count", Config: []byte(`{"count":100}`), Position: []byte(`{"lsn":1}`),
	})
	require.ErrorIs(t, err, host.ErrFailed)
	require.ErrorContains(t, err, "is not one of this source")
}

func TestSourceGoesOnAfterACrash(t *testing.T) {
	p := startFaulty(t, host.Options{})
	s, err := p.Source(t.Context(), host.SourceOptions{
		Part: "count", Config: fmt.Appendf(nil, `{"count":1000,"crash_at":505,"once":%q}`,
			filepath.Join(t.TempDir(), "once")),
	})
	require.NoError(t, err)
	values, _ := readAll(t, s, true)
	require.Equal(t, numbers(0, 1000), values)
	require.Equal(t, 1, p.Restarts())
	require.NoError(t, s.Close())
}

func TestSourceThatIsKilledLosesNothing(t *testing.T) {
	p := startFaulty(t, host.Options{})
	s, err := p.Source(t.Context(), host.SourceOptions{Part: "count", Config: []byte(`{"count":3000}`)})
	require.NoError(t, err)
	var values []string
	for len(values) < 1000 {
		b, err := s.Read(t.Context())
		require.NoError(t, err)
		for _, r := range b.Records {
			values = append(values, string(r.Value))
		}
	}
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	rest, _ := readAll(t, s, true)
	require.Equal(t, numbers(0, 3000), append(values, rest...))
}

func TestSourceCrashLoop(t *testing.T) {
	p := startFaulty(t, host.Options{})
	s, err := p.Source(t.Context(), host.SourceOptions{
		Part: "count", Config: []byte(`{"count":1000,"crash_at":505}`),
	})
	require.NoError(t, err)
	var values []string
	for {
		b, err := s.Read(t.Context())
		if err != nil {
			require.ErrorIs(t, err, host.ErrCrashLoop)
			break
		}
		for _, r := range b.Records {
			values = append(values, string(r.Value))
		}
	}
	require.Equal(t, numbers(0, len(values)), values) // each once; what was in flight is lost with it
	require.LessOrEqual(t, len(values), 500)
}

// Nobody takes the records, so the source soon waits for credits; a commit is served all the same.
func TestSourceServesCommitsWhileItWaitsForCredits(t *testing.T) {
	p := startFaulty(t, host.Options{})
	commits := filepath.Join(t.TempDir(), "commits")
	s, err := p.Source(t.Context(), host.SourceOptions{
		Part: "count", Config: fmt.Appendf(nil, `{"count":100000,"commits":%q}`, commits),
	})
	require.NoError(t, err)
	b, err := s.Read(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Commit(t.Context(), b.Position))
	require.NoError(t, s.Close())
	told, err := os.ReadFile(commits)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(len(b.Records)), strings.TrimSpace(string(told)))
}
