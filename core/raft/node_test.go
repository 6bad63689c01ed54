package raft_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is a state machine that keeps the commands it was given.
type words struct {
	mu struct {
		sync.Mutex
		list []string
	}
	failOn string // a command whose Apply fails
}

func (w *words) get() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.mu.list)
}

func (w *words) Apply(_ uint64, command []byte) error {
	if w.failOn != "" && string(command) == w.failOn {
		return errors.New("no such word")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.list = append(w.mu.list, string(command))
	return nil
}

func (w *words) Snapshot() func() ([]byte, error) {
	list := w.get()
	return func() ([]byte, error) { return json.Marshal(list) }
}

func (w *words) Restore(_ uint64, snapshot []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return json.Unmarshal(snapshot, &w.mu.list)
}

func (w *words) LeaderChanged(uint64) {}

// node is a raft node over one file system.
type node struct {
	*raft.Node
	words *words
	dir   *storage.Dir
}

func open(t *testing.T, fsys vfs.FS, edit func(*raft.Options)) (*node, error) {
	t.Helper()
	dir, err := storage.OpenDir(t.Context(), storage.DirOptions{FS: fsys, Path: "/data", NodeID: 1})
	if err != nil {
		return nil, err
	}
	log, err := raft.OpenLog(dir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	n := &node{words: &words{}, dir: dir}
	opts := raft.Options{FS: fsys, Dir: "/data/raft", Log: log, ID: 1, StateMachine: n.words,
		Logger: slog.New(slog.DiscardHandler)}
	if edit != nil {
		edit(&opts)
	}
	if n.Node, err = raft.Open(opts); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return n, nil
}

func mustOpen(t *testing.T, fsys vfs.FS, edit func(*raft.Options)) *node {
	t.Helper()
	n, err := open(t, fsys, edit)
	require.NoError(t, err)
	return n
}

func (n *node) close(t *testing.T) {
	t.Helper()
	require.NoError(t, n.Node.Close())
	require.NoError(t, n.dir.Close())
}

func (n *node) propose(t *testing.T, command string) uint64 {
	t.Helper()
	index, err := n.Propose(context.Background(), []byte(command))
	require.NoError(t, err)
	return index
}

func TestProposeAppliesInOrderAndSurvivesRestart(t *testing.T) {
	mem := vfs.NewMem()
	n := mustOpen(t, mem, nil)
	require.Equal(t, uint64(2), n.propose(t, "a")) // entry 1 is the leader's empty one
	require.Equal(t, uint64(3), n.propose(t, "b"))
	require.Equal(t, []string{"a", "b"}, n.words.get())
	require.Equal(t, uint64(1), n.Leader())
	require.Equal(t, uint64(3), n.Applied())
	n.close(t)
	_, err := n.Propose(t.Context(), []byte("late"))
	require.ErrorIs(t, err, raft.ErrClosed)

	n = mustOpen(t, mem, nil)
	defer n.close(t)
	n.propose(t, "c")
	require.Equal(t, []string{"a", "b", "c"}, n.words.get())
}

func TestConcurrentProposalsShareSyncs(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	n := mustOpen(t, fault, nil)
	defer n.close(t)
	n.propose(t, "first")
	before := fault.Count(vfs.OpSync)
	// While one sync is slow, the others queue up behind it.
	defer fault.Inject(vfs.Rule{Op: vfs.OpSync, Delay: 1e6})()
	var wg sync.WaitGroup
	indexes := make([]uint64, 64)
	for i := range indexes {
		wg.Go(func() { indexes[i], _ = n.Propose(t.Context(), fmt.Appendf(nil, "w%d", i)) })
	}
	wg.Wait()
	slices.Sort(indexes)
	require.Equal(t, uint64(3), indexes[0])
	require.Len(t, slices.Compact(indexes), 64)
	require.Less(t, fault.Count(vfs.OpSync)-before, 40)
}

// What Propose answered is there after a power cut at any moment, whatever of the rest the disk
// kept; and what is there is a prefix of what was proposed.
func TestAppliedCommandsSurvivePowerCut(t *testing.T) {
	small := func(o *raft.Options) { o.SnapshotEntries = 3 }
	for seed := range uint64(60) {
		mem := vfs.NewMem()
		n := mustOpen(t, mem, small)
		var want []string
		for i := range int(seed%20) + 1 {
			want = append(want, fmt.Sprint(i))
			n.propose(t, want[i])
		}
		crashed := mem.CrashClone(seed)
		n.close(t)

		again := mustOpen(t, crashed, small)
		again.propose(t, "after")
		require.Equal(t, append(want, "after"), again.words.get(), "seed %d", seed)
		again.close(t)
	}
}

// A power cut between any two operations of the disk, in particular around the rename of a
// snapshot and of the quorum state.
func TestPowerCutAtEveryOperation(t *testing.T) {
	small := func(o *raft.Options) { o.SnapshotEntries = 2 }
	for cut := 1; ; cut++ {
		mem := vfs.NewMem()
		var clone *vfs.Mem
		var answered int
		var mu sync.Mutex
		count := 0
		traced := vfs.NewTrace(mem, func(string) {
			mu.Lock()
			defer mu.Unlock()
			if count++; count == cut {
				clone = mem.CrashClone(uint64(cut))
			}
		})
		n := mustOpen(t, traced, small)
		atCut := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return clone != nil
		}
		for i := range 8 {
			before := atCut()
			n.propose(t, fmt.Sprint(i))
			if !before && !atCut() {
				answered = i + 1
			}
		}
		n.close(t)
		if clone == nil {
			require.Greater(t, cut, 50)
			return
		}
		again := mustOpen(t, clone, small)
		again.propose(t, "after")
		got := again.words.get()
		require.GreaterOrEqual(t, len(got), answered+1, "cut %d", cut)
		for i := range len(got) - 1 {
			require.Equal(t, fmt.Sprint(i), got[i], "cut %d", cut)
		}
		again.close(t)
	}
}

func TestSnapshotsBoundTheLogAndTwoAreKept(t *testing.T) {
	mem := vfs.NewMem()
	n := mustOpen(t, mem, func(o *raft.Options) { o.SnapshotEntries = 10 })
	var want []string
	log, _ := n.dir.Log(raft.LogPartition)
	for i := 0; log.StartOffset() <= 100; i++ {
		want = append(want, fmt.Sprint(i))
		n.propose(t, want[i])
	}
	n.close(t)
	require.Len(t, snapshots(t, mem), 2)

	n = mustOpen(t, mem, nil)
	n.propose(t, "x")
	require.Equal(t, append(want, "x"), n.words.get())
	n.close(t)
}

func snapshots(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	entries, err := fsys.ReadDir("/data/raft")
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		if ok, _ := filepath.Match("snapshot-*", e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestStateMachineErrorEndsTheNode(t *testing.T) {
	n := mustOpen(t, vfs.NewMem(), nil)
	n.words.failOn = "bad"
	_, err := n.Propose(t.Context(), []byte("bad"))
	require.ErrorContains(t, err, "no such word")
	require.ErrorIs(t, n.Close(), raft.ErrFailed)
	require.NoError(t, n.dir.Close())
}

func TestProposeRefusesWhatIsTooLarge(t *testing.T) {
	n := mustOpen(t, vfs.NewMem(), nil)
	defer n.close(t)
	_, err := n.Propose(t.Context(), make([]byte, raft.MaxCommand+1))
	require.ErrorIs(t, err, raft.ErrTooLarge)
	n.propose(t, string(make([]byte, raft.MaxCommand)))
	n.propose(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = n.Propose(ctx, []byte("x"))
	require.True(t, err == nil || errors.Is(err, context.Canceled))
}

func TestOpenNamesAllMissingOptions(t *testing.T) {
	_, err := raft.Open(raft.Options{})
	require.ErrorContains(t, err, "Dir is empty")
	require.ErrorContains(t, err, "StateMachine is nil")
}

// Entries are record batches with the term as leader epoch, so that the log's own tools and
// checksums work on them.
func TestEntriesAreBatchesInTheLog(t *testing.T) {
	n := mustOpen(t, vfs.NewMem(), nil)
	defer n.close(t)
	n.propose(t, "hello")
	log, _ := n.dir.Log(raft.LogPartition)
	require.Equal(t, int64(2), log.EndOffset())
	require.Equal(t, int64(2), log.SyncedOffset())
	require.Equal(t, int32(1), log.LatestEpoch())
}

func BenchmarkPropose(b *testing.B) {
	fsys, dir := vfs.OS(), b.TempDir()
	d, err := storage.OpenDir(b.Context(), storage.DirOptions{FS: fsys, Path: dir, NodeID: 1})
	require.NoError(b, err)
	defer d.Close()
	log, err := raft.OpenLog(d)
	require.NoError(b, err)
	n, err := raft.Open(raft.Options{FS: fsys, Dir: filepath.Join(dir, "raft"), Log: log, ID: 1,
		StateMachine: &words{}})
	require.NoError(b, err)
	defer n.Close()
	command := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Propose(b.Context(), command); err != nil {
			b.Fatal(err)
		}
	}
}
