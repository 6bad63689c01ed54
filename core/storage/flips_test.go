package storage_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// written makes a directory with several segments, aborted transactions and deleted records, closed
// in order or not.
func written(t *testing.T, clean bool) *vfs.Mem {
	t.Helper()
	s := &stateTest{t: t, disk: vfs.NewMem()}
	s.mu.told = acknowledged{created: map[storage.TopicPartition]bool{},
		acked: map[storage.TopicPartition]int{}, keys: map[string]int{}, tried: map[string]int{},
		txns: map[int]bool{}}
	w := s.start(s.disk)
	w.round(0)
	w.round(2)
	require.NoError(t, w.logs[alwaysLog].DeleteRecordsBefore(6))
	require.NoError(t, w.dir.SaveCheckpoints())
	if clean {
		w.close()
		return s.disk
	}
	require.NoError(t, w.raft.node.Close())
	w.raft.dir.Abandon()
	w.dir.Abandon()
	return s.disk
}

// flip changes one byte of a file.
func flip(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.OpenFile(name, vfs.ReadWrite, 0)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// readable returns what consumers get of each log, of both isolation levels. No batch with a wrong
// CRC is among it. What Kafka's format leaves outside the CRC is the base offset, where
// one that is out of order is noticed here, as in recovery, compaction and fsck, and the leader
// epoch, which no record depends on: of these a fetch tells nothing.
func readable(t *testing.T, dir *storage.Dir) (map[string]string, error) {
	t.Helper()
	got := map[string]string{}
	for _, l := range dir.Logs() {
		if err := l.Err(); err != nil {
			return nil, err
		}
		l.SetHighWatermark(l.EndOffset())
		aborted, err := l.AbortedTransactions(l.StartOffset(), l.EndOffset())
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		fmt.Fprintln(&text, l.StartOffset(), l.EndOffset(), aborted)
		for at := l.StartOffset(); at < l.EndOffset(); {
			c, err := l.Read(at, 1<<20, 1<<60, true)
			if err != nil {
				return nil, err
			}
			data, err := c.AppendTo(nil)
			next := c.NextOffset()
			c.Release()
			if err != nil || next <= at {
				return nil, fmt.Errorf("read at %d: %w", at, err)
			}
			last := at - 1
			at = next
			for len(data) > 0 {
				var b record.Batch
				if b, data, err = record.Next(data); err == nil {
					err = b.CheckCRC()
				}
				if err == nil && (b.LastOffset() <= last || b.NextOffset() > next) {
					err = fmt.Errorf("offset %d follows %d", b.BaseOffset(), last)
				}
				if err != nil {
					return nil, err
				}
				last = b.LastOffset()
				fmt.Fprintf(&text, "%d %x\n", b.BaseOffset(), b[21:])
			}
		}
		got[l.TopicPartition().String()] = text.String()
	}
	return got, nil
}

// TestFlippedBytesAreNoticedOrHarmless flips one byte at many places of each kind of file, after a
// clean stop and after a crash: either the start, the read or the client's CRC says so, with the
// file's name from the former two, or everything read is as it was. What fsck finds of each byte is
// in its own test.
func TestFlippedBytesAreNoticedOrHarmless(t *testing.T) {
	for _, clean := range []bool{true, false} {
		disk := written(t, clean)
		dir, err := openState(t.Context(), disk.Clone())
		require.NoError(t, err)
		want, err := readable(t, dir)
		require.NoError(t, err)
		dir.Abandon()
		kinds := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(files(t, disk, "/data"))) {
			info, err := disk.Stat(name)
			require.NoError(t, err)
			for at := int64(0); at < info.Size(); at += max(1, info.Size()/9) {
				broken := disk.Clone()
				flip(t, broken, name, at)
				kinds[kindOf(name)]++
				requireNoticed(t, broken, fmt.Sprintf("%s at %d, clean=%v", name, at, clean), want)
			}
		}
		t.Logf("clean=%v: %v", clean, kinds)
		for _, kind := range []string{".log", ".timeindex", ".txnindex", ".snapshot",
			"leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "partition.metadata",
			"log-start-offset-checkpoint", "replication-offset-checkpoint", "meta.properties"} {
			require.Positive(t, kinds[kind], kind)
		}
	}
}

func kindOf(name string) string {
	if ext := filepath.Ext(name); ext != "" && ext != ".metadata" && ext != ".properties" {
		return ext
	}
	return filepath.Base(name)
}

func requireNoticed(t *testing.T, disk *vfs.Mem, what string, want map[string]string) {
	t.Helper()
	var logged bytes.Buffer
	dir, err := storage.OpenDir(t.Context(), storage.DirOptions{FS: disk, Path: "/data", NodeID: 1,
		Now: stateNow, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		require.True(t, errors.Is(err, storage.ErrBadFile) || errors.Is(err, storage.ErrWrongDir),
			"%s: %v", what, err)
		return
	}
	defer dir.Abandon()
	got, err := readable(t, dir)
	if err != nil {
		return // noticed, by the start, a read, or a client
	}
	for tp, text := range want {
		if got[tp] == text || isCheckpoint(what) {
			continue
		}
		if strings.Contains(what, ".log at") { // the base offset of a last batch may be another one
			text, got[tp] = withoutOffsets(text), withoutOffsets(got[tp])
		}
		require.True(t, text == got[tp], "%s: %s is\n%s\nwant\n%s", what, tp, got[tp], text)
	}
}

// withoutOffsets leaves the batches' bytes.
func withoutOffsets(text string) string {
	var left strings.Builder
	for line := range strings.Lines(text[strings.IndexByte(text, '\n')+1:]) {
		_, data, _ := strings.Cut(line, " ")
		left.WriteString(data)
	}
	return left.String()
}

// isCheckpoint reports whether the file has no checksum and nothing to hold it against: a digit of
// a checkpoint may have become another one that is as right. Those are found by fsck only.
func isCheckpoint(what string) bool { return strings.Contains(what, "offset-checkpoint") }

// TestLostIndexOfAbortedTransactionsIsNoticed removes, and empties, each .txnindex, after a clean
// stop and after a crash: what read committed consumers get stays the same, and the index comes
// back as it was. With its list gone, too, nothing could be noticed, and nothing is made up.
func TestLostIndexOfAbortedTransactionsIsNoticed(t *testing.T) {
	for _, clean := range []bool{true, false} {
		disk := written(t, clean)
		before := files(t, disk.Clone(), "/data")
		dir, err := openState(t.Context(), disk.Clone())
		require.NoError(t, err)
		want, err := readable(t, dir)
		require.NoError(t, err)
		dir.Abandon()
		n := 0
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if filepath.Ext(name) != ".txnindex" {
				continue
			}
			n++
			for _, harm := range []func(*vfs.Mem) error{
				func(m *vfs.Mem) error { return m.Remove(name) },
				func(m *vfs.Mem) error {
					f, err := m.OpenFile(name, vfs.ReadWrite, 0)
					if err == nil {
						err = errors.Join(f.Truncate(0), f.Sync(), f.Close())
					}
					return err
				},
			} {
				broken := disk.Clone()
				require.NoError(t, harm(broken))
				dir, err := openState(t.Context(), broken)
				require.NoError(t, err)
				got, err := readable(t, dir)
				require.NoError(t, err)
				require.Equal(t, want, got, "%s, clean=%v", name, clean)
				require.NoError(t, dir.Close())
				require.Equal(t, before[name], files(t, broken, "/data")[name], name)
			}
		}
		require.Positive(t, n, "clean=%v", clean)
	}
}
