package command

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBenchMeasuresAndCounts checks what is counted, not how fast it is.
func TestBenchMeasuresAndCounts(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	c := startBroker(t, nil)
	made := decode[benchResult](t,
		c.ok("bench", "produce", "-n", "5000", "--size", "10", "-o", "json"))
	require.Equal(t, int64(5000), made.Records)
	require.Equal(t, int64(50000), made.Bytes)
	require.Positive(t, made.PerSecond)
	require.Equal(t, benchGCPercent, made.GOGC)
	read := decode[benchResult](t, c.ok("bench", "consume", "-n", "9000", "-o", "json"))
	require.Equal(t, int64(5000), read.Records, "no more than there are")
	through := decode[benchResult](t, c.ok("bench", "pipeline", "-n", "500", "-p", "2", "-o", "json"))
	require.Equal(t, int64(500), through.Records)
	require.Contains(t, c.ok("bench", "produce", "-n", "10"), "produce  ")
	require.Contains(t, c.ok("topic", "ls"), "10", "its own topic is made anew without asking")
}

// TestBenchLeavesTopicsOfOthersAlone: a topic that bench did not make is deleted only if somebody
// says so.
func TestBenchLeavesTopicsOfOthersAlone(t *testing.T) {
	c := startBroker(t, nil)
	c.feed("precious\n", "produce", "orders")
	r := c.run("bench", "produce", "--topic", "orders", "-n", "10")
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, "error[NOT_CONFIRMED]: this would delete topic orders")
	require.Contains(t, c.ok("consume", "orders"), "precious")
	c.ok("bench", "produce", "--topic", "orders", "-n", "10", "--yes")
	require.NotContains(t, c.ok("consume", "orders"), "precious")

	for _, args := range [][]string{
		{"-n", "0"}, {"-n", "-5"}, {"--size", "-1"}, {"-p", "0"}, {"--compression", "brotli"},
		{"--flush", "never"},
	} {
		r := c.run(append([]string{"bench", "produce"}, args...)...)
		require.Equal(t, 2, r.exit, "%v: %s", args, r.err)
	}
}
