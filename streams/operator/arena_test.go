package operator

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArenaNeverHandsOutAByteTwice(t *testing.T) {
	var a Arena
	var all [][]byte
	for i := range 2000 {
		size := i % 700
		var b []byte
		switch i % 3 {
		case 0:
			b = a.Make(size)
			require.Len(t, b, size)
		case 1:
			b = a.Copy(make([]byte, size))
		case 2:
			b = a.End(append(a.Start(), make([]byte, size*100)...)) // outgrows the piece at times
		}
		require.Equal(t, len(b), cap(b), "an append must not reach the next slice")
		for j := range b {
			b[j] = byte(i)
		}
		all = append(all, b)
	}
	for i, b := range all {
		require.Equal(t, len(b), bytes.Count(b, []byte{byte(i)}), "slice %d was written over", i)
	}
}

func TestArenaAllocatesByThePiece(t *testing.T) {
	var a Arena
	per := testing.AllocsPerRun(1000, func() { a.Copy([]byte("a key of 16 bytes")) })
	require.Zero(t, per, "averaged to whole allocations")
}
