//go:build !race

package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coretest"
)

// TestHotPathsDoNotAllocate gates what a produce and a fetch allocate in the whole process, with
// the client of this file, which allocates nothing. It needs TCP: the in-memory network allocates
// a timer for each deadline. The race detector empties pools at random: it is left out there.
func TestHotPathsDoNotAllocate(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	benchTopic(t, c, "t")
	r := newRawClient(t, c)
	produce := frameOf(produceRequest(9, "t", [16]byte{}, 0, sizedBatch(t, 1<<10)))
	fetch := fetchRequest(12, "t", [16]byte{}, 0, 0)
	first(fetch).PartitionMaxBytes = 1 << 10
	large := fetchRequest(12, "t", [16]byte{}, 0, 0)
	run := func(frame []byte) {
		require.NoError(t, r.write(frame))
		_, err := r.skip()
		require.NoError(t, err)
	}
	for range 200 {
		run(produce)
	}
	for _, v := range []struct {
		name  string
		frame []byte
		most  float64
	}{
		{"produce", produce, 1},
		{"fetch", frameOf(fetch), 1},
		{"fetch with sendfile", frameOf(large), 2}, // the file's raw connection
	} {
		run(v.frame)
		got := testing.AllocsPerRun(500, func() { run(v.frame) })
		require.LessOrEqual(t, got, v.most, v.name)
	}
}
