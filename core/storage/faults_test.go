package storage_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// diskFault is one operation that fails.
type diskFault struct {
	op      vfs.Op
	err     error
	partial int64 // bytes that the refused write writes
}

func (f diskFault) String() string { return fmt.Sprintf("%s %v %d", f.op, f.err, f.partial) }

// passing reports whether the fault is of a kind that goes by: no space, no descriptors.
func (f diskFault) passing() bool { return f.err != syscall.EIO && f.op != vfs.OpSync }

var diskFaults = []diskFault{
	{vfs.OpWrite, syscall.EIO, 0}, {vfs.OpWrite, syscall.EIO, 7}, {vfs.OpSync, syscall.EIO, 0},
	{vfs.OpSync, syscall.ENOSPC, 0}, {vfs.OpSyncDir, syscall.EIO, 0}, {vfs.OpRead, syscall.EIO, 0},
	{vfs.OpRename, syscall.EIO, 0}, {vfs.OpCreate, syscall.EIO, 0},
	{vfs.OpReadDir, syscall.EIO, 0}, {vfs.OpRemove, syscall.EIO, 0}, {vfs.OpOpen, syscall.EIO, 0},
	{vfs.OpWrite, syscall.ENOSPC, 0}, {vfs.OpWrite, syscall.ENOSPC, 33},
	{vfs.OpCreate, syscall.ENOSPC, 0}, {vfs.OpRename, syscall.ENOSPC, 0},
	{vfs.OpCreate, syscall.EMFILE, 0}, {vfs.OpOpen, syscall.EMFILE, 0},
	{vfs.OpSyncDir, syscall.EMFILE, 0},
}

// faultRun is a broker's disk on which one operation fails.
type faultRun struct {
	t    *testing.T
	fsys vfs.FS
	dir  *storage.Dir
	logs map[string]*storage.Log
	n    map[string]int  // of the next record, failed ones included
	seen map[string]bool // values that were acknowledged
	errs []error
}

// try runs a step; what went wrong for want of room is tried again, as clients do.
func (r *faultRun) try(step func() error) error {
	for tries := 0; ; tries++ {
		err := step()
		if err == nil {
			return nil
		}
		r.errs = append(r.errs, err)
		if tries == 5 || !errors.Is(err, storage.ErrNoSpace) && !errors.Is(err, storage.ErrNoFiles) {
			return err
		}
	}
}

func (r *faultRun) open() error {
	var err error
	if r.dir, err = openState(r.t.Context(), r.fsys); err != nil {
		r.errs = append(r.errs, err)
		return err
	}
	for _, name := range []string{"a", "b"} {
		c := storage.DefaultConfig()
		c.SegmentBytes, c.RetentionBytes, c.Flush = 400, 1500, storage.FlushAlways
		if err := r.try(func() (err error) {
			r.logs[name], err = r.dir.Create(storage.TopicPartition{Topic: name},
				uuid.NewMD5(uuid.Nil, []byte(name)), c)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// append writes records, each once more only if it was refused.
func (r *faultRun) append(name string, count int) error {
	for range count {
		value := fmt.Sprintf("%s %d", name, r.n[name])
		r.n[name]++
		if err := r.try(func() error {
			_, err := r.logs[name].Append(build(r.t, record.BuilderOptions{},
				record.Record{Value: []byte(value)}, record.Record{Value: []byte("x")}),
				storage.AppendOptions{LeaderEpoch: max(r.logs[name].LatestEpoch(), 0)})
			return err
		}); err != nil {
			return err
		}
		r.seen[value] = true
		r.logs[name].SetHighWatermark(r.logs[name].SyncedOffset())
	}
	return nil
}

// life opens, uses the disk in all ways and closes, as far as it gets.
func (r *faultRun) life() error {
	if err := r.open(); err != nil {
		return err
	}
	a, b := r.logs["a"], r.logs["b"]
	steps := []func() error{
		func() error { return r.append("a", 9) },
		func() error { return r.append("b", 3) },
		r.dir.SaveCheckpoints,
		func() error { return a.AssignEpoch(a.LatestEpoch()+1, a.EndOffset()) },
		func() error { return r.append("a", 4) },
		func() error { r.dir.ApplyRetention(); return nil },
		func() error { return b.DeleteRecordsBefore(b.StartOffset() + 1) },
		func() error { return r.append("b", 2) },
		func() error {
			c := storage.DefaultConfig()
			_, err := r.dir.Create(storage.TopicPartition{Topic: "gone"}, uuid.Max, c)
			return err
		},
		func() error {
			err := r.dir.Delete(storage.TopicPartition{Topic: "gone"})
			if errors.Is(err, storage.ErrUnknownPartition) {
				return nil // it could not be made
			}
			return err
		},
		func() error { _, err := a.Read(a.StartOffset(), 1000, 1<<60, true); return err },
	}
	for i, step := range steps {
		if err := r.try(step); err != nil && r.dir.Err() != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return r.dir.Close()
}

// TestAnyOperationOfTheDiskMayFail has each operation of two lives of a directory fail once, in
// each way it can. For want of space or descriptors, work is refused and goes on. Whatever else
// fails, the directory may fail, must where a sync did, and syncs no more then. What was
// acknowledged is there after a power cut that follows.
func TestAnyOperationOfTheDiskMayFail(t *testing.T) {
	for _, fault := range diskFaults {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				for nth := 1; oneFault(t, fault, nth); nth++ {
					runs++
				}
				require.Positive(t, runs)
				t.Logf("%d operations failed", runs)
			})
		})
	}
}

// oneFault has the nth operation fail; false if there were not so many.
func oneFault(t *testing.T, fault diskFault, nth int) bool {
	disk := vfs.NewMem()
	faulty := vfs.NewFault(disk)
	where := fmt.Sprintf("%v, number %d", fault, nth)
	hit, syncsThen := false, 0
	faulty.Inject(vfs.Rule{Op: fault.op, Nth: nth, Times: 1, Err: fault.err, Partial: fault.partial})
	r := &faultRun{t: t, logs: map[string]*storage.Log{}, n: map[string]int{},
		seen: map[string]bool{}}
	var mu sync.Mutex // partitions are opened side by side
	r.fsys = vfs.NewTrace(faulty, func(string) {
		mu.Lock()
		defer mu.Unlock()
		if !hit && faulty.Count(fault.op) >= nth {
			hit, syncsThen = true, faulty.Count(vfs.OpSync)
		}
	})
	err := r.life()
	first := r.dir
	if first != nil {
		first.Abandon()
	}
	if err == nil {
		err = r.life()
		if r.dir != nil {
			r.dir.Abandon()
		}
	}
	if faulty.Count(fault.op) < nth {
		require.NoError(t, err, where)
		return false
	}
	if fault.passing() && r.dir != nil && first != nil {
		require.NoError(t, r.dir.Err(), where)
		for _, err := range r.errs {
			require.True(t, errors.Is(err, storage.ErrNoSpace) || errors.Is(err, storage.ErrNoFiles),
				"%s: %v", where, err)
		}
	}
	failed := r.dir != nil && r.dir.Err() != nil
	if fault.op == vfs.OpSync || fault.op == vfs.OpSyncDir && fault.err == syscall.EIO {
		require.True(t, failed || err != nil, where)
	}
	if failed && hit {
		require.ErrorIs(t, r.dir.Err(), storage.ErrDirFailed)
		require.ErrorIs(t, r.dir.Err(), fault.err)
		if fault.op == vfs.OpSync {
			require.Equal(t, syncsThen, faulty.Count(vfs.OpSync), "%s: synced again", where)
		}
	}
	r.requireKept(disk, where)
	return true
}

// requireKept opens what power cuts leave and looks for the records that were acknowledged.
func (r *faultRun) requireKept(disk *vfs.Mem, where string) {
	for seed := range uint64(2) {
		dir, err := openState(r.t.Context(), disk.CrashClone(seed))
		require.NoError(r.t, err, where)
		got := map[string]int{}
		start := map[string]int64{}
		for _, l := range dir.Logs() {
			require.NoError(r.t, l.Err(), where)
			name := l.TopicPartition().Topic
			start[name] = l.StartOffset()
			for _, rec := range readState(r.t, l) {
				got[string(rec.Value)]++
			}
		}
		for value := range r.seen {
			name, text, _ := strings.Cut(value, " ")
			n := 0
			_, err := fmt.Sscan(text, &n)
			require.NoError(r.t, err)
			if int64(2*n) < start[name] || start[name] == 0 && len(r.logs) == 0 {
				continue // deleted by retention, or on request
			}
			require.Positive(r.t, got[value], "%s, seed %d: %q is lost", where, seed, value)
		}
		dir.Abandon()
	}
}

// TestBytesThatCannotBeCutOff has the cut of a refused write's bytes fail, too. Without a
// descriptor it waits for the next append; any other failure ends the directory, since an append
// behind such bytes would be lost with them. That is not called a full disk, and what was
// acknowledged stays.
func TestBytesThatCannotBeCutOff(t *testing.T) {
	for _, c := range []struct {
		err  error
		when string // the cut that fails
		nth  int
	}{
		{syscall.EIO, "at once", 1}, {syscall.EMFILE, "at once", 1},
		{syscall.EIO, "before the next append", 2},
	} {
		t.Run(fmt.Sprint(c.err, " ", c.when), func(t *testing.T) {
			disk := vfs.NewMem()
			faulty := vfs.NewFault(disk)
			r := &faultRun{t: t, fsys: faulty, logs: map[string]*storage.Log{}, n: map[string]int{},
				seen: map[string]bool{}}
			require.NoError(t, r.open())
			require.NoError(t, r.append("a", 2))
			write := func() error {
				_, err := r.logs["a"].Append(build(t, record.BuilderOptions{},
					record.Record{Value: []byte("a 2")}, record.Record{Value: []byte("x")}),
					storage.AppendOptions{})
				return err
			}
			faulty.Inject(vfs.Rule{Op: vfs.OpWrite, Path: ".log", Times: 1, Err: syscall.ENOSPC,
				Partial: 20})
			if c.nth > 1 {
				faulty.Inject(vfs.Rule{Op: vfs.OpTruncate, Path: ".log", Times: 1, Err: syscall.EMFILE})
			}
			faulty.Inject(vfs.Rule{Op: vfs.OpTruncate, Path: ".log", Nth: c.nth, Times: 1, Err: c.err})
			err := write()
			if c.nth > 1 {
				require.ErrorIs(t, err, storage.ErrNoSpace)
				err = write()
			}
			if c.err == syscall.EMFILE {
				require.ErrorIs(t, err, storage.ErrNoSpace)
				require.NoError(t, r.append("a", 3))
			} else {
				require.ErrorIs(t, err, storage.ErrDirFailed)
				require.ErrorIs(t, err, syscall.EIO)
				require.NotErrorIs(t, err, storage.ErrNoSpace)
				require.ErrorIs(t, r.dir.Err(), storage.ErrDirFailed)
			}
			r.dir.Abandon()
			r.requireKept(disk, c.when)
		})
	}
}

// TestDeletedRecordsStayDeletedAfterARefusal has a disk full while records are deleted: the refused
// request may be repeated, and what it then promises survives a power cut.
func TestDeletedRecordsStayDeletedAfterARefusal(t *testing.T) {
	disk := vfs.NewMem()
	faulty := vfs.NewFault(disk)
	r := &faultRun{t: t, fsys: faulty, logs: map[string]*storage.Log{}, n: map[string]int{},
		seen: map[string]bool{}}
	require.NoError(t, r.open())
	require.NoError(t, r.append("a", 3))
	faulty.Inject(vfs.Rule{Op: vfs.OpWrite, Path: "log-start-offset", Times: 1, Err: syscall.ENOSPC})
	require.ErrorIs(t, r.logs["a"].DeleteRecordsBefore(4), storage.ErrNoSpace)
	require.NoError(t, r.logs["a"].DeleteRecordsBefore(4))
	r.dir.Abandon()
	dir, err := openState(t.Context(), disk.CrashClone(1))
	require.NoError(t, err)
	defer dir.Abandon()
	l, ok := dir.Log(storage.TopicPartition{Topic: "a"})
	require.True(t, ok)
	require.Equal(t, int64(4), l.StartOffset())
}
