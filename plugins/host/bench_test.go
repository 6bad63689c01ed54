package host_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/host"
)

// BenchmarkEcho sends records of a 16 B key and a 200 B value through an operator that moves their
// time. window is how many batches are in flight.
func BenchmarkEcho(b *testing.B) {
	bin := buildPlugin(b, "echo")
	for _, mode := range []string{"process", "local"} {
		for _, size := range []int{1, 100, 256, 1000} {
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

// BenchmarkLatency sends 10,000 records a second through a plugin, in batches of what has come
// while the batch before was away, and reports how long after its arrival a record is back.
func BenchmarkLatency(b *testing.B) {
	bin := buildPlugin(b, "echo")
	p, err := host.Start(b.Context(), host.Options{Name: "echo", Command: host.Command{Path: bin}})
	require.NoError(b, err)
	defer p.Close()
	op, err := p.Operator(b.Context(), host.OperatorOptions{})
	require.NoError(b, err)
	const gap = time.Second / 10_000
	record := host.Record{Topic: "in"}
	record.Key, record.Value = bytes.Repeat([]byte("k"), 16), bytes.Repeat([]byte("v"), 200)
	var took []time.Duration
	var batch []host.Record
	next := time.Now()
	for b.Loop() {
		<-time.After(time.Until(next))
		batch = batch[:0]
		first := next
		for now := time.Now(); !next.After(now); next = next.Add(gap) {
			batch = append(batch, record)
		}
		r, err := op.Process(b.Context(), batch)
		require.NoError(b, err)
		r.Release()
		back := time.Now()
		for i := range batch {
			took = append(took, back.Sub(first.Add(time.Duration(i)*gap)))
		}
	}
	slices.Sort(took)
	for _, q := range []int{50, 99} {
		b.ReportMetric(float64(took[len(took)*q/100].Microseconds()), fmt.Sprintf("p%d-us", q))
	}
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "records/s")
}
