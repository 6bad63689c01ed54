//go:build linux

package host_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
)

func openSink(t *testing.T, p *host.Plugin, committed []host.TopicOffset, format string,
	args ...any) *host.Sink {
	t.Helper()
	s, err := p.Sink(t.Context(), host.SinkOptions{
		Part: "sink", Config: fmt.Appendf(nil, format, args...), Committed: committed,
	})
	require.NoError(t, err)
	return s
}

func TestSinkWritesAndTellsWhatIsCommitted(t *testing.T) {
	var out logBuffer
	p := startFaulty(t, host.Options{Output: &out})
	s := openSink(t, p, nil, `{"fault":"error","at":3}`)
	errs, err := s.Write(t.Context(), records(0, 5))
	require.NoError(t, err)
	require.Len(t, errs, 1)
	require.Equal(t, host.RecordError{Index: 3, Class: "plugin", Message: "refused"}, errs[0])
	require.Equal(t, "0\n1\n2\n4\n", out.String())
	require.Equal(t, []host.TopicOffset{{Topic: "in", Offset: 5}}, s.Committed())
	require.NoError(t, s.Close())
}

func TestSinkIsOpenedWithWhatWasCommitted(t *testing.T) {
	var log, out logBuffer
	p := startFaulty(t, host.Options{Logger: log.logger(), Output: &out})
	s := openSink(t, p, []host.TopicOffset{{Topic: "in", Partition: 0, Offset: 7}},
		`{"fault":"panic","at":9,"once":%q}`, filepath.Join(t.TempDir(), "once"))
	for i := range 3 {
		errs, err := s.Write(t.Context(), records(7+int64(i), 1))
		require.NoError(t, err)
		require.Empty(t, errs)
	}
	require.Equal(t, "7\n8\n9\n", out.String())
	require.NoError(t, s.Close())
	require.Equal(t, 1, strings.Count(log.String(), "next=7"))
	require.Equal(t, 1, strings.Count(log.String(), "next=9"), log.String()) // after the crash
}

func TestSinkPoisonRecord(t *testing.T) {
	var out logBuffer
	p := startFaulty(t, host.Options{Output: &out})
	s := openSink(t, p, nil, `{"fault":"panic","at":5}`)
	errs, err := s.Write(t.Context(), records(0, 10))
	require.NoError(t, err)
	require.Len(t, errs, 1)
	require.Equal(t, 5, errs[0].Index)
	require.Equal(t, "plugin_crash", errs[0].Class)
	require.Contains(t, out.String(), "9\n")
	require.Equal(t, []host.TopicOffset{{Topic: "in", Offset: 10}}, s.Committed())
}

func TestSinkRetryableFailsTheBatchAndCommitsNothing(t *testing.T) {
	var out logBuffer
	p := startFaulty(t, host.Options{Output: &out})
	s := openSink(t, p, nil, `{"fault":"retryable","at":1,"once":%q}`, filepath.Join(t.TempDir(),
		"once"))
	errs, err := s.Write(t.Context(), records(0, 3))
	require.NoError(t, err)
	require.Len(t, errs, 3)
	require.True(t, errs[0].Retryable)
	require.Empty(t, s.Committed())
	errs, err = s.Write(t.Context(), records(0, 3))
	require.NoError(t, err)
	require.Empty(t, errs)
	require.Len(t, s.Committed(), 1)
}

func TestSinkEndsWithAFatalError(t *testing.T) {
	p := startFaulty(t, host.Options{})
	s := openSink(t, p, nil, `{"fault":"fatal","at":1}`)
	_, err := s.Write(t.Context(), records(0, 3))
	require.ErrorIs(t, err, host.ErrFailed)
	require.ErrorContains(t, err, "gone")
}
