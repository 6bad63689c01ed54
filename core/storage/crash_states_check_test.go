package storage_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/storage/fsck"
	"github.com/millstream-io/millstream/core/vfs"
)

// crashState is a disk after a power cut, and what was acknowledged before.
type crashState struct {
	s    *stateTest
	told acknowledged
	disk *vfs.Mem
	name string
}

// check opens the disk; with again, the power fails also ahead of some changes of that opening.
func (c crashState) check(again bool) {
	c.s.mu.states++
	t := c.s.t
	disk := vfs.FS(c.disk)
	var inner []crashState
	if again {
		var mu sync.Mutex // partitions are opened side by side
		n := uint64(0)
		disk = vfs.NewTrace(c.disk, func(op string) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%5 == 0 {
				inner = append(inner, crashState{s: c.s, told: c.told, disk: c.disk.CrashClone(n),
					name: fmt.Sprintf("%s, then again ahead of %q", c.name, op)})
			}
		})
	}
	dir, err := openState(t.Context(), disk)
	require.NoError(t, err, c.name)
	c.checkLogs(dir)
	clean := dir.WasClean()
	dir.Abandon()
	once := files(t, c.disk, "/data")
	twice := c.disk.Clone()
	dir, err = openState(t.Context(), twice)
	require.NoError(t, err, "%s, opened again", c.name)
	dir.Abandon()
	second := files(t, twice, "/data")
	if clean { // what is beside the logs was complete, and then made anew
		beside := func(name, _ string) bool { return !strings.HasSuffix(name, ".log") }
		maps.DeleteFunc(once, beside)
		maps.DeleteFunc(second, beside)
	}
	for name, content := range once {
		require.True(t, second[name] == content, "%s, opened again: %s changed", c.name, name)
		delete(second, name)
	}
	require.Empty(t, slices.Collect(maps.Keys(second)), "%s, opened again", c.name)
	_, err = fsck.Check(t.Context(), fsck.Options{FS: twice, Path: "/data",
		Report: func(f fsck.Finding) { require.True(t, f.Note, "%s: %+v", c.name, f) }})
	require.NoError(t, err, c.name)
	c.checkRaft()
	for _, i := range inner {
		i.check(false)
	}
}

// files returns the content of all files but the lock and those that are to be removed.
func files(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			maps.Copy(found, files(t, fsys, name))
		} else if e.Name() != ".lock" && !strings.HasSuffix(e.Name(), ".deleted") {
			data, err := vfs.ReadFile(fsys, name)
			require.NoError(t, err)
			found[name] = string(data)
		}
	}
	return found
}

func (c crashState) checkRaft() {
	t := c.s.t
	n, err := openRaft(t.Context(), c.disk)
	require.NoError(t, err, c.name)
	_, err = n.node.Propose(t.Context(), []byte("after"))
	require.NoError(t, err, c.name)
	got := n.commands()
	require.GreaterOrEqual(t, len(got), c.told.raft+1, c.name)
	for i, command := range got[:len(got)-1] {
		require.Equal(t, strconv.Itoa(i), command, c.name)
	}
	require.NoError(t, n.close(), c.name)
}

func (c crashState) checkLogs(dir *storage.Dir) {
	t := c.s.t
	for _, tp := range stateLogs {
		l, ok := dir.Log(tp)
		if !ok {
			require.False(t, c.told.created[tp], "%s: %s is gone", c.name, tp)
			continue
		}
		require.NoError(t, l.Err(), c.name)
		require.Equal(t, l.EndOffset(), l.SyncedOffset(), c.name)
		records := readState(t, l)
		switch tp {
		case compactLog:
			c.checkKeys(records)
		case txnLog:
			c.checkTransactions(l, records)
		default:
			require.GreaterOrEqual(t, len(records), c.told.acked[tp], "%s: %s", c.name, tp)
			for i, r := range records {
				value, _, _ := strings.Cut(string(r.Value), ".")
				require.Equal(t, strconv.Itoa(i), value, "%s: %s", c.name, tp)
			}
		}
	}
}

// checkKeys wants each key's value to be the last one acknowledged, or one tried after it.
func (c crashState) checkKeys(records []record.Record) {
	last := map[string]int{}
	for _, r := range records {
		text, _, _ := strings.Cut(string(r.Value), ".")
		n, err := strconv.Atoi(text)
		require.NoError(c.s.t, err, c.name)
		last[string(r.Key)] = n
	}
	for key, least := range c.told.keys {
		require.Contains(c.s.t, last, key, c.name)
		require.GreaterOrEqual(c.s.t, last[key], least, "%s: %s", c.name, key)
		require.LessOrEqual(c.s.t, last[key], c.told.tried[key], "%s: %s", c.name, key)
	}
}

// checkTransactions wants those committed whole, those aborted hidden, and the last one either way.
func (c crashState) checkTransactions(l *storage.Log, records []record.Record) {
	t := c.s.t
	l.SetHighWatermark(l.EndOffset())
	aborted, err := l.AbortedTransactions(l.StartOffset(), l.EndOffset())
	require.NoError(t, err, c.name)
	hidden := map[int64]bool{} // first offsets of aborted transactions
	for _, a := range aborted {
		hidden[a.FirstOffset] = true
	}
	seen := map[int]int{}
	for at := 0; at < len(records); at++ {
		r := records[at]
		n, part := 0, 0
		_, err := fmt.Sscanf(string(r.Value), "%d/%d", &n, &part)
		require.NoError(t, err, c.name)
		first := r.Offset - int64(part)
		if r.Offset < l.LastStableOffset() && !hidden[first] {
			seen[n]++
		}
	}
	for n := range c.told.begun {
		committed, decided := c.told.txns[n]
		switch {
		case decided && committed:
			require.Equal(t, 2, seen[n], "%s: transaction %d was committed", c.name, n)
		case decided:
			require.Zero(t, seen[n], "%s: transaction %d was aborted", c.name, n)
		case c.told.ending:
			require.Contains(t, []int{0, 2}, seen[n], "%s: transaction %d", c.name, n)
		default:
			require.Zero(t, seen[n], "%s: transaction %d", c.name, n)
		}
	}
}

// readState returns the records of a log, without markers.
func readState(t *testing.T, l *storage.Log) []record.Record {
	t.Helper()
	var list []record.Record
	for at := l.StartOffset(); at < l.EndOffset(); {
		c, err := l.Read(at, 1<<20, 1<<60, true)
		require.NoError(t, err)
		data, err := c.AppendTo(nil)
		require.NoError(t, err)
		require.Greater(t, c.NextOffset(), at)
		at = c.NextOffset()
		c.Release()
		for len(data) > 0 {
			var b record.Batch
			b, data, err = record.Next(data)
			require.NoError(t, err)
			require.NoError(t, b.CheckCRC())
			if b.IsControl() {
				continue
			}
			records, err := b.Records(1 << 24)
			require.NoError(t, err)
			list = append(list, records...)
		}
	}
	return list
}
