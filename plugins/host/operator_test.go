//go:build linux

package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
)

// records makes n records with offsets from first on.
func records(first int64, n int) []host.Record {
	out := make([]host.Record, n)
	for i := range out {
		out[i].Topic, out[i].Offset = "in", first+int64(i)
		out[i].Value = fmt.Appendf(nil, `{"n":%d}`, first+int64(i))
	}
	return out
}

func startFaulty(t testing.TB, o host.Options) *host.Plugin {
	t.Helper()
	o.Name = "faulty"
	if o.Command.Path == "" {
		o.Command.Path = buildPlugin(t, "faulty")
	}
	p, err := host.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func openFaulty(t testing.TB, p *host.Plugin, format string, args ...any) *host.Operator {
	t.Helper()
	op, err := p.Operator(t.Context(), host.OperatorOptions{
		Part: "op", Config: fmt.Appendf(nil, format, args...), Task: "0",
	})
	require.NoError(t, err)
	return op
}

// requireEcho checks that every input came out as it was, but those in bad, which have that class.
func requireEcho(t testing.TB, in []host.Record, r *host.Results, bad map[int64]string) {
	t.Helper()
	require.Equal(t, len(in), r.Len())
	for i := range in {
		if class, ok := bad[in[i].Offset]; ok {
			require.NotNil(t, r.Err(i), "offset %d", in[i].Offset)
			require.Equal(t, class, r.Err(i).Class)
			require.Empty(t, r.Outputs(i))
			continue
		}
		require.Nil(t, r.Err(i), "offset %d: %v", in[i].Offset, r.Err(i))
		out := r.Outputs(i)
		require.Len(t, out, 1)
		require.Equal(t, in[i].Offset, out[0].Offset)
		require.Equal(t, string(in[i].Value), string(out[0].Value))
	}
}

func TestOperatorAnswersEachRecord(t *testing.T) {
	p := startFaulty(t, host.Options{})
	for fault, check := range map[string]func(*testing.T, *host.Results){
		"error": func(t *testing.T, r *host.Results) {
			require.Equal(t, "no such customer", r.Err(5).Message)
			require.Equal(t, "plugin", r.Err(5).Class)
			require.False(t, r.Err(5).Retryable)
			require.Empty(t, r.Outputs(5)) // what it emitted before it failed is taken back
		},
		"retryable": func(t *testing.T, r *host.Results) { require.True(t, r.Err(5).Retryable) },
		"drop": func(t *testing.T, r *host.Results) {
			require.Nil(t, r.Err(5))
			require.Empty(t, r.Outputs(5))
		},
		"noise": func(t *testing.T, r *host.Results) { require.Len(t, r.Outputs(5), 1) },
		"flood": func(t *testing.T, r *host.Results) { require.Len(t, r.Outputs(5), 1) },
		"big":   func(t *testing.T, r *host.Results) { require.Len(t, r.Outputs(5)[0].Value, 6<<20) },
	} {
		t.Run(fault, func(t *testing.T) {
			op := openFaulty(t, p, `{"fault":%q,"at":5}`, fault)
			defer op.Close()
			in := records(0, 10)
			r, err := op.Process(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, 10, r.Len())
			check(t, r)
			require.Equal(t, int64(4), r.Outputs(4)[0].Offset)
			require.Equal(t, int64(6), r.Outputs(6)[0].Offset)
		})
	}
	require.Zero(t, p.Restarts())
}

func TestOperatorManyFramesInOrder(t *testing.T) {
	p := startFaulty(t, host.Options{})
	op := openFaulty(t, p, `{"fault":"none"}`)
	var flying []*host.Pending
	for i := range 40 {
		f, err := op.Submit(t.Context(), records(int64(i)*2500, 2500)) // three frames each
		require.NoError(t, err)
		flying = append(flying, f)
		if len(flying) > 8 {
			r, err := flying[0].Wait(t.Context())
			require.NoError(t, err)
			requireEcho(t, records(int64(i-8)*2500, 2500), r, nil)
			flying = flying[1:]
		}
	}
	require.NoError(t, op.Close())
	for _, f := range flying { // Close answered them
		_, err := f.Wait(t.Context())
		require.NoError(t, err)
	}
	_, err := op.Process(t.Context(), records(0, 1))
	require.ErrorIs(t, err, host.ErrClosed)
}

func TestOperatorLargeRecords(t *testing.T) {
	p := startFaulty(t, host.Options{})
	op := openFaulty(t, p, `{"fault":"none"}`)
	in := records(0, 4)
	in[1].Value = bytes.Repeat([]byte("x"), 5<<20)  // above gRPC's default limit of 4 MiB
	in[2].Value = bytes.Repeat([]byte("y"), 63<<20) // just fits
	in[3].Value = bytes.Repeat([]byte("z"), 65<<20) // does not
	r, err := op.Process(t.Context(), in)
	require.NoError(t, err)
	require.True(t, bytes.Equal(in[1].Value, r.Outputs(1)[0].Value))
	require.True(t, bytes.Equal(in[2].Value, r.Outputs(2)[0].Value))
	require.Equal(t, "too_large", r.Err(3).Class)
}

func TestOperatorPoisonRecord(t *testing.T) {
	for _, fault := range []string{"panic", "exit"} {
		t.Run(fault, func(t *testing.T) {
			var log logBuffer
			p := startFaulty(t, host.Options{Logger: log.logger()})
			op := openFaulty(t, p, `{"fault":%q,"at":1234}`, fault)
			var flying []*host.Pending
			for i := range 4 {
				f, err := op.Submit(t.Context(), records(int64(i)*1000, 1000))
				require.NoError(t, err)
				flying = append(flying, f)
			}
			for i, f := range flying {
				r, err := f.Wait(t.Context())
				require.NoError(t, err)
				requireEcho(t, records(int64(i)*1000, 1000), r, map[int64]string{1234: "plugin_crash"})
				if fault == "panic" && i == 1 {
					require.Contains(t, r.Err(234).Message, "poison at 1234")
				}
			}
			require.NoError(t, p.Err())
			if fault == "panic" { // its stacks are for debugging
				require.Contains(t, log.String(), `level=ERROR msg="panic: `)
				require.NotContains(t, log.String(), `msg="goroutine `)
				require.NotContains(t, log.String(), `msg="\t/`)
			}
		})
	}
}

func TestOperatorManyPoisonRecordsDoNotTripTheBreaker(t *testing.T) {
	p := startFaulty(t, host.Options{})
	op := openFaulty(t, p, `{"fault":"exit","every":100}`)
	bad := map[int64]string{}
	for i := int64(0); i < 1000; i += 100 {
		bad[i] = "plugin_crash"
	}
	for i := range 10 {
		in := records(int64(i)*100, 100)
		r, err := op.Process(t.Context(), in)
		require.NoError(t, err)
		requireEcho(t, in, r, bad)
	}
	require.NoError(t, p.Err())
}

func TestOperatorSurvivesKill(t *testing.T) {
	p := startFaulty(t, host.Options{})
	op := openFaulty(t, p, `{"fault":"none"}`)
	other := openFaulty(t, p, `{"fault":"none"}`)
	for i := range 3 {
		var flying []*host.Pending
		for k := range 8 {
			f, err := op.Submit(t.Context(), records(int64(k)*1000, 1000))
			require.NoError(t, err)
			flying = append(flying, f)
		}
		if pid := p.PID(); pid != 0 {
			if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
				require.NoError(t, err) // it may have died of the kill before
			}
		}
		for k, f := range flying {
			r, err := f.Wait(t.Context())
			require.NoError(t, err, "round %d", i)
			requireEcho(t, records(int64(k)*1000, 1000), r, nil)
		}
		r, err := other.Process(t.Context(), records(0, 10))
		require.NoError(t, err)
		requireEcho(t, records(0, 10), r, nil)
	}
	require.GreaterOrEqual(t, p.Restarts(), 1)
}

func TestOperatorCrashLoopBreaker(t *testing.T) {
	p := startFaulty(t, host.Options{})
	op := openFaulty(t, p, `{"fault":"none"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for p.Err() == nil && ctx.Err() == nil {
		if pid := p.PID(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		wait, stop := context.WithTimeout(ctx, 20*time.Millisecond)
		<-wait.Done()
		stop()
	}
	_, err := op.Process(ctx, records(0, 1))
	require.ErrorIs(t, err, host.ErrCrashLoop)
	require.ErrorContains(t, err, `plugin "faulty" ended 5 times within 1m0s`)
}

func TestOperatorThatHangsIsKilledAndFedAgain(t *testing.T) {
	p := startFaulty(t, host.Options{HangTimeout: 2 * time.Second})
	op := openFaulty(t, p, `{"fault":"hang","at":7,"once":%q}`, filepath.Join(t.TempDir(), "once"))
	in := records(0, 20)
	r, err := op.Process(t.Context(), in)
	require.NoError(t, err)
	requireEcho(t, in, r, nil)
	require.Equal(t, 1, p.Restarts())
}

func TestOperatorHangAtOneRecord(t *testing.T) {
	p := startFaulty(t, host.Options{HangTimeout: time.Second})
	op := openFaulty(t, p, `{"fault":"hang","at":2}`)
	in := records(0, 4)
	r, err := op.Process(t.Context(), in)
	require.NoError(t, err)
	requireEcho(t, in, r, map[int64]string{2: "plugin_crash"})
}

func TestOperatorEndsWithAFatalError(t *testing.T) {
	p := startFaulty(t, host.Options{})
	op := openFaulty(t, p, `{"fault":"fatal","at":5}`)
	_, err := op.Process(t.Context(), records(0, 10))
	require.ErrorIs(t, err, host.ErrFailed)
	require.ErrorContains(t, err, `operator of plugin "faulty": license expired`)
	_, err = op.Process(t.Context(), records(0, 1))
	require.ErrorIs(t, err, host.ErrFailed)
	require.Zero(t, p.Restarts())
}

func TestOperatorRefusesConfigAndPart(t *testing.T) {
	p := startFaulty(t, host.Options{})
	_, err := p.Operator(t.Context(), host.OperatorOptions{Part: "op",
		Config: []byte(`{"fault":"fatel"}`)})
	require.ErrorIs(t, err, host.ErrFailed)
	require.ErrorContains(t, err, `config /fault: "fatel" is not one of`)
	_, err = p.Operator(t.Context(), host.OperatorOptions{Part: "nope"})
	require.ErrorIs(t, err, host.ErrFailed)
	require.ErrorContains(t, err, `has no operator "nope"; it has: op`)
	found, err := p.Validate(t.Context(), "op", []byte(`{"fault":"fatel","att":1}`))
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, "/fault", found[0].Pointer)
	require.Equal(t, `did you mean "fatal"?`, found[0].Hint)
	require.Equal(t, "/att", found[1].Pointer)
	require.Equal(t, `did you mean "at"?`, found[1].Hint)
}

func TestOperatorThatLiesIsCaught(t *testing.T) {
	for lie, want := range map[string]string{
		"counts": "1 counts for a batch of 3 records",
		"sum":    "a result of 3 records does not match its counts for 3 inputs",
		"few":    "a result of 0 records does not match its counts for 3 inputs",
		"seq":    "it answered batch 4, which is not the oldest unanswered one",
		"frame":  "bad plugin frame",
		"errors": "error for record 99 of a batch of 3",
		"huge":   "received message larger than max",
		"end":    "it ended the stream",
	} {
		t.Run(lie, func(t *testing.T) {
			p, err := host.Start(t.Context(), host.Options{
				Name: "liar", Command: host.Command{Path: buildPlugin(t, "liar"), Env: []string{"LIE=" + lie}},
			})
			require.NoError(t, err)
			defer p.Close()
			op, err := p.Operator(t.Context(), host.OperatorOptions{Part: "op"})
			require.NoError(t, err)
			_, err = op.Process(t.Context(), records(0, 3))
			require.ErrorIs(t, err, host.ErrProtocol)
			require.ErrorContains(t, err, `plugin "liar"`)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestOperatorAnswerTwice(t *testing.T) {
	p, err := host.Start(t.Context(), host.Options{
		Name: "liar", Command: host.Command{Path: buildPlugin(t, "liar"), Env: []string{"LIE=twice"}},
	})
	require.NoError(t, err)
	defer p.Close()
	op, err := p.Operator(t.Context(), host.OperatorOptions{Part: "op"})
	require.NoError(t, err)
	for range 3 {
		if _, err = op.Process(t.Context(), records(0, 3)); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, host.ErrProtocol)
}

func TestOperatorInProcess(t *testing.T) {
	p, err := host.Start(t.Context(), host.Options{Name: "echo", InProcess: &echoPlugin})
	require.NoError(t, err)
	op, err := p.Operator(t.Context(), host.OperatorOptions{})
	require.NoError(t, err)
	r, err := op.Process(t.Context(), records(0, 3000))
	require.NoError(t, err)
	require.Equal(t, int64(1), r.Outputs(2999)[0].Timestamp)
	require.NoError(t, p.Close())
	_, err = op.Process(t.Context(), records(0, 1))
	require.ErrorIs(t, err, host.ErrClosed)
}
