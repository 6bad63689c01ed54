package host_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
)

// BenchmarkEcho sends records of a 16 B key and a 200 B value through an operator that moves their
// time. window is how many batches are in flight.
func BenchmarkEcho(b *testing.B) {
	bin := buildPlugin(b, "echo")
	for _, mode := range []string{"process", "local"} {
		for _, size := range []int{1, 100, 1000} {
			for _, window := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/batch=%d/window=%d", mode, size, window), func(b *testing.B) {
					o := host.Options{Name: "echo", Command: host.Command{Path: bin}}
					if mode == "local" {
						o.InProcess = &echoPlugin
					}
					benchmarkOperator(b, o, size, window)
				})
			}
		}
	}
}

func benchmarkOperator(b *testing.B, o host.Options, size, window int) {
	p, err := host.Start(b.Context(), o)
	require.NoError(b, err)
	defer p.Close()
	op, err := p.Operator(b.Context(), host.OperatorOptions{})
	require.NoError(b, err)
	batch := make([]host.Record, size)
	for i := range batch {
		batch[i].Key, batch[i].Value = bytes.Repeat([]byte("k"), 16), bytes.Repeat([]byte("v"), 200)
		batch[i].Topic, batch[i].Offset, batch[i].Timestamp = "in", int64(i), 1_700_000_000_000
	}
	var flying []*host.Pending
	wait := func() {
		r, err := flying[0].Wait(b.Context())
		require.NoError(b, err)
		require.Equal(b, size, len(r.All()))
		r.Release()
		flying = flying[1:]
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(flying) == window {
			wait()
		}
		f, err := op.Submit(b.Context(), batch)
		require.NoError(b, err)
		flying = append(flying, f)
	}
	for len(flying) > 0 {
		wait()
	}
	b.ReportMetric(float64(b.N)*float64(size)/b.Elapsed().Seconds(), "rec/s")
}
