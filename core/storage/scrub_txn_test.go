package storage

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// editInPlace changes a file's bytes as a disk does: those that have it open see it.
func editInPlace(t *testing.T, fsys vfs.FS, name string, edit func([]byte) []byte) {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	data = edit(data)
	f, err := fsys.OpenFile(name, vfs.ReadWrite, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(len(data))))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// TestScrubMakesDamagedAbortsAnew: the index of aborted transactions of a sealed segment rots while
// the broker runs. The scrub notices, and from then on read_committed consumers get what they got
// before, and the file is again the one that Kafka wrote; the next round finds nothing.
func TestScrubMakesDamagedAbortsAnew(t *testing.T) {
	const name = "/data/settled-0/00000000000000000055.txnindex"
	for fault, edit := range map[string]func([]byte) []byte{
		"empty":          func(b []byte) []byte { return b[:0] },
		"cut":            func(b []byte) []byte { return b[:len(b)-30] },
		"entry lost":     func(b []byte) []byte { return b[:len(b)-abortedTxnSize] },
		"version":        func(b []byte) []byte { b[1] = 9; return b },
		"producer":       func(b []byte) []byte { b[9] ^= 1; return b },
		"first offset":   func(b []byte) []byte { b[17] ^= 1; return b },
		"no order":       func(b []byte) []byte { b[18] = 0x80; return b },
		"marker":         func(b []byte) []byte { b[25] ^= 1; return b },
		"stable offset":  func(b []byte) []byte { b[26] = 1; return b },
		"zeros":          func(b []byte) []byte { clear(b); return b },
		"last entry bad": func(b []byte) []byte { b[len(b)-9] ^= 0x40; return b },
	} {
		t.Run(fault, func(t *testing.T) {
			fsys, files := loadSettled(t)
			d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data", NodeID: 1,
				Settings: DirSettings{ScrubBytesPerSecond: 1 << 30, ScrubInterval: time.Nanosecond}})
			require.NoError(t, err)
			l, ok := d.Log(settled)
			require.True(t, ok)
			require.NoError(t, l.Err())
			want := aborted(t, l, 0, l.EndOffset())
			require.NotEmpty(t, want)
			editInPlace(t, fsys, name, edit)
			d.Scrub(t.Context())
			require.Equal(t, int64(1), d.Counters().Damages.Load(), "the fault was not noticed")
			require.Equal(t, want, aborted(t, l, 0, l.EndOffset()))
			require.Equal(t, files, dirFiles(t, fsys, "/data/settled-0"))
			for _, dir := range []string{"/", "/data", "/data/settled-0"} {
				require.NoError(t, fsys.SyncDir(dir))
			}
			synced, err := vfs.ReadFile(fsys.CrashClone(1), name)
			require.NoError(t, err)
			require.Equal(t, files[filepath.Base(name)], string(synced), "a power cut takes it back")
			d.Scrub(t.Context())
			require.Equal(t, int64(1), d.Counters().Damages.Load())
			require.NoError(t, d.Close())
			require.Equal(t, files, dirFiles(t, fsys, "/data/settled-0"))
		})
	}
}
