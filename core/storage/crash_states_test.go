package storage_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/storage/compact"
	"github.com/millstream-io/millstream/core/storage/fsck"
	"github.com/millstream-io/millstream/core/vfs"
)

var crashSeeds = flag.Uint64("crash-seeds", 0,
	"power cuts ahead of each change to the disk in TestCrashStates; 0: one ahead of every 20th")

// The logs of the workload, one for each kind of promise.
var (
	alwaysLog  = storage.TopicPartition{Topic: "always", Partition: 0}
	groupLog   = storage.TopicPartition{Topic: "group", Partition: 0}
	compactLog = storage.TopicPartition{Topic: "compact", Partition: 0}
	txnLog     = storage.TopicPartition{Topic: "txn", Partition: 0}
	stateLogs  = []storage.TopicPartition{alwaysLog, groupLog, compactLog, txnLog}
)

const stateTime = int64(1_700_000_000_000) // wall clock, ms; it stands still

// acknowledged is what clients were told. A client's number counts up from 0: what it has tried is
// a range from there.
type acknowledged struct {
	created map[storage.TopicPartition]bool
	acked   map[storage.TopicPartition]int // records of a plain log, the first so many
	keys    map[string]int                 // of the compacted log: least value
	tried   map[string]int                 // and largest value
	txns    map[int]bool                   // decided transactions: committed or aborted
	begun   int                            // transactions
	ending  bool                           // how the one that is open ends, once that is tried
	raft    int                            // commands
}

func (a *acknowledged) clone() acknowledged {
	c := *a
	c.created, c.acked = maps.Clone(a.created), maps.Clone(a.acked)
	c.keys, c.tried, c.txns = maps.Clone(a.keys), maps.Clone(a.tried), maps.Clone(a.txns)
	return c
}

// stateTest cuts the power ahead of each change to the disk and looks at once.
type stateTest struct {
	t     *testing.T
	disk  *vfs.Mem
	seeds uint64
	mu    struct {
		sync.Mutex
		told   acknowledged
		ops    int
		states int
		kinds  map[string]int // of changes that a cut came ahead of
	}
}

// TestCrashStates runs appends, rolls, compaction, checkpoints, transactions and raft commands side
// by side, cuts the power ahead of each change to the disk, and opens what is left: nothing
// acknowledged is lost, nobody is kept from starting, opening twice gives the same bytes, and fsck
// finds no damage. In some states the power fails again while they are opened.
func TestCrashStates(t *testing.T) {
	s := &stateTest{t: t, disk: vfs.NewMem(), seeds: *crashSeeds}
	s.mu.kinds = map[string]int{}
	s.mu.told = acknowledged{created: map[storage.TopicPartition]bool{},
		acked: map[storage.TopicPartition]int{}, keys: map[string]int{}, tried: map[string]int{},
		txns: map[int]bool{}}
	w := s.start(vfs.NewTrace(s.disk, s.cut))
	for round := range 4 {
		w.round(round)
	}
	w.close()
	t.Logf("%d changes, %d states: %v", s.mu.ops, s.mu.states, s.mu.kinds)
	require.Greater(t, s.mu.ops, 400)
	for _, kind := range []string{"write", "sync", "syncdir", "rename", "create", "remove"} {
		require.Positive(t, s.mu.kinds[kind], kind)
	}
}

func (s *stateTest) cut(op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, _, _ := strings.Cut(op, " ")
	switch kind {
	case "open", "close", "lock":
		return // they change nothing
	}
	s.mu.ops++
	s.mu.kinds[kind]++
	seeds := s.seeds
	if seeds == 0 && s.mu.ops%20 == 0 {
		seeds = 1
	}
	for i := range seeds {
		seed := uint64(s.mu.ops)*1000 + i
		state := crashState{s: s, told: s.mu.told.clone(), disk: s.disk.CrashClone(seed),
			name: fmt.Sprintf("ahead of change %d, %q, seed %d", s.mu.ops, op, i)}
		state.check(seed%7 == 0)
	}
}

// tell changes what was acknowledged.
func (s *stateTest) tell(fn func(a *acknowledged)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.mu.told)
}

func stateConfig(tp storage.TopicPartition) storage.Config {
	c := storage.DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 900, 128
	switch tp {
	case alwaysLog:
		c.Flush = storage.FlushAlways
	case compactLog:
		c.Compact, c.Delete, c.MinCleanableDirtyRatio = true, false, 0
	}
	return c
}

// workload is the broker whose disk fails.
type workload struct {
	s       *stateTest
	fsys    vfs.FS
	dir     *storage.Dir
	logs    map[storage.TopicPartition]*storage.Log
	cleaner *compact.Cleaner
	raft    *raftNode
	n       map[storage.TopicPartition]int // batches tried
	seq     int32                          // of the transactional producer
}

func stateNow() time.Time { return time.UnixMilli(stateTime) }

func openState(ctx context.Context, fsys vfs.FS) (*storage.Dir, error) {
	return storage.OpenDir(ctx, storage.DirOptions{FS: fsys, Path: "/data", NodeID: 1, Now: stateNow})
}

func (s *stateTest) start(fsys vfs.FS) *workload {
	w := &workload{s: s, fsys: fsys, logs: map[storage.TopicPartition]*storage.Log{},
		n: map[storage.TopicPartition]int{}}
	w.open()
	return w
}

func (w *workload) open() {
	t := w.s.t
	var err error
	w.dir, err = openState(t.Context(), w.fsys)
	require.NoError(t, err)
	for _, tp := range stateLogs {
		w.logs[tp], err = w.dir.Create(tp, uuid.NewMD5(uuid.Nil, []byte(tp.Topic)), stateConfig(tp))
		require.NoError(t, err)
		w.s.tell(func(a *acknowledged) { a.created[tp] = true })
	}
	w.cleaner, err = compact.New(compact.Options{Dir: w.dir, Now: stateNow})
	require.NoError(t, err)
	w.raft, err = openRaft(t.Context(), w.fsys)
	require.NoError(t, err)
}

func (w *workload) close() {
	require.NoError(w.s.t, w.raft.close())
	require.NoError(w.s.t, w.dir.Close())
}

// round does some of everything; the broker restarts, in order or killed, between rounds.
func (w *workload) round(round int) {
	for i := range 6 {
		w.plain(alwaysLog)
		w.plain(groupLog)
		w.keyed(i)
		w.transaction(i%2 == 0)
		w.propose()
		if i == 3 {
			require.NoError(w.s.t, w.dir.SaveCheckpoints())
		}
	}
	c := w.logs[compactLog]
	require.NoError(w.s.t, c.Sync(w.s.t.Context()))
	c.SetHighWatermark(c.EndOffset())
	require.Positive(w.s.t, w.cleaner.CleanNow(w.s.t.Context()))
	if round == 1 {
		w.close()
		w.open()
	}
}

func build(t *testing.T, o record.BuilderOptions, records ...record.Record) []byte {
	t.Helper()
	o.LeaderEpoch = -1
	b := record.NewBuilder(o)
	for _, r := range records {
		r.Timestamp = stateTime
		b.Append(r)
	}
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// plain appends a batch of two records, the second long enough to lie on several blocks.
func (w *workload) plain(tp storage.TopicPartition) {
	n := w.n[tp]
	w.n[tp] += 2
	long := fmt.Sprint(n+1, strings.Repeat(".", n%5*137))
	_, err := w.logs[tp].Append(build(w.s.t, record.BuilderOptions{},
		record.Record{Value: []byte(fmt.Sprint(n))}, record.Record{Value: []byte(long)}),
		storage.AppendOptions{})
	require.NoError(w.s.t, err)
	if tp == groupLog && n%4 == 0 {
		return // the next one's sync is for both
	}
	require.NoError(w.s.t, w.logs[tp].Sync(w.s.t.Context()))
	w.s.tell(func(a *acknowledged) { a.acked[tp] = n + 2 })
}

// keyed gives two keys new values.
func (w *workload) keyed(i int) {
	n := w.n[compactLog]
	w.n[compactLog]++
	keys := []string{fmt.Sprint("k", i%3), "all"}
	w.s.tell(func(a *acknowledged) {
		for _, k := range keys {
			a.tried[k] = n
		}
	})
	var records []record.Record
	for _, k := range keys {
		value := []byte(fmt.Sprint(n, strings.Repeat(".", 150)))
		records = append(records, record.Record{Key: []byte(k), Value: value})
	}
	l := w.logs[compactLog]
	_, err := l.Append(build(w.s.t, record.BuilderOptions{}, records...), storage.AppendOptions{})
	require.NoError(w.s.t, err)
	require.NoError(w.s.t, l.Sync(w.s.t.Context()))
	w.s.tell(func(a *acknowledged) {
		for _, k := range keys {
			a.keys[k] = n
		}
	})
}

// transaction writes one of two batches of one record and ends it.
func (w *workload) transaction(commit bool) {
	t, l := w.s.t, w.logs[txnLog]
	n := w.n[txnLog]
	w.n[txnLog]++
	w.s.tell(func(a *acknowledged) { a.begun, a.ending = n+1, commit })
	for part := range 2 {
		guard, _, err := l.StartVerification(5, 0, w.seq)
		require.NoError(t, err)
		value := fmt.Sprintf("%d/%d", n, part)
		_, err = l.Append(build(t, record.BuilderOptions{Idempotent: true, Transactional: true,
			ProducerID: 5, BaseSequence: w.seq}, record.Record{Value: []byte(value)}),
			storage.AppendOptions{Guard: guard})
		require.NoError(t, err)
		w.seq++
	}
	kind := record.ControlAbort
	if commit {
		kind = record.ControlCommit
	}
	_, err := l.Append(record.ControlBatch(record.ControlOptions{Type: kind, ProducerID: 5,
		CoordinatorEpoch: 1, Timestamp: stateTime}),
		storage.AppendOptions{Origin: storage.FromTxnCoordinator, TransactionVersion: 1})
	require.NoError(t, err)
	require.NoError(t, l.Sync(t.Context()))
	l.SetHighWatermark(l.SyncedOffset())
	w.s.tell(func(a *acknowledged) { a.txns[n] = commit })
}

func (w *workload) propose() {
	n := w.n[raft.LogPartition]
	w.n[raft.LogPartition]++
	_, err := w.raft.node.Propose(w.s.t.Context(), []byte(strconv.Itoa(n)))
	require.NoError(w.s.t, err)
	w.s.tell(func(a *acknowledged) { a.raft = n + 1 })
}

// raftNode is a metadata log whose state is the list of its commands.
type raftNode struct {
	node *raft.Node
	dir  *storage.Dir
	mu   sync.Mutex
	list []string
}

func openRaft(ctx context.Context, fsys vfs.FS) (*raftNode, error) {
	dir, err := storage.OpenDir(ctx, storage.DirOptions{FS: fsys, Path: "/raft", NodeID: 1,
		Now: stateNow})
	if err != nil {
		return nil, err
	}
	n := &raftNode{dir: dir}
	log, err := raft.OpenLog(dir)
	if err == nil {
		n.node, err = raft.Open(raft.Options{FS: fsys, Dir: "/raft/quorum", Log: log, ID: 1,
			StateMachine: n, SnapshotEntries: 7, Now: stateNow})
	}
	if err != nil {
		dir.Abandon()
		return nil, err
	}
	return n, nil
}

func (n *raftNode) close() error {
	if err := n.node.Close(); err != nil {
		return err
	}
	return n.dir.Close()
}

func (n *raftNode) commands() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

func (n *raftNode) Apply(_ uint64, command []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, string(command))
	return nil
}

func (n *raftNode) Snapshot() func() ([]byte, error) {
	list := n.commands()
	return func() ([]byte, error) { return json.Marshal(list) }
}

func (n *raftNode) Restore(_ uint64, snapshot []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return json.Unmarshal(snapshot, &n.list)
}

func (n *raftNode) LeaderChanged(uint64) {}

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
		n := uint64(0)
		disk = vfs.NewTrace(c.disk, func(op string) {
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
