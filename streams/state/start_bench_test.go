package state_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/state"
)

// BenchmarkStart opens a cleanly closed file of 10 million rows (16-byte keys, 64-byte values) and
// reads 1000 of them. Before that it reports how fast sorted rows were restored into the file, and
// how long the file takes to open after its process was killed.
func BenchmarkStart(b *testing.B) {
	const rows = 10_000_000
	opts := state.Options{Path: filepath.Join(b.TempDir(), "db"), Identity: state.Identity{Task: "t"}}
	db, err := state.Open(opts)
	require.NoError(b, err)
	key := func(n int) []byte {
		return binary.BigEndian.AppendUint64([]byte("\x6b\x01s--------"), uint64(n))
	}
	value := make([]byte, 64)
	began := time.Now()
	bulk, ok := db.NewBulk()
	require.True(b, ok)
	for i := range rows {
		if bulk.Add(key(i), value) {
			require.NoError(b, bulk.Write(state.Meta{Next: int64(i) + 1}))
		}
	}
	require.NoError(b, bulk.Write(state.Meta{Next: rows, Commit: []byte("c")}))
	require.NoError(b, db.Close())
	restore := time.Since(began)
	db, err = state.Open(opts) // as a process that is killed leaves it, with a write behind it
	require.NoError(b, err)
	require.NoError(b, db.Store("s").Put([]byte("more"), value))
	require.NoError(b, db.Commit(began, state.Meta{Next: rows + 1, Commit: []byte("c")}))
	require.NoError(b, db.Flush())
	require.NoError(b, db.Kill())
	killed := time.Now()
	db, err = state.Open(opts)
	require.NoError(b, err)
	afterKill := time.Since(killed)
	require.NoError(b, db.Close())
	for b.Loop() {
		db, err := state.Open(opts)
		require.NoError(b, err)
		for i := range 1000 {
			_, ok, err := db.Lookup(key(i * (rows / 1000)))
			require.NoError(b, err)
			require.True(b, ok)
		}
		require.NoError(b, db.Close())
	}
	b.ReportMetric(rows/restore.Seconds()/1e6, "Mrows/s-restored")
	b.ReportMetric(float64(afterKill.Microseconds())/1000, "ms-after-kill")
	b.ReportMetric(float64(peakRSS())/(1<<20), "MiB-peak")
}

// peakRSS is the largest resident set of this process, 0 where the system does not tell.
func peakRSS() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib int64
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &kib)
		}
	}
	return kib << 10
}
