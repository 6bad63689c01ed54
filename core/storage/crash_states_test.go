package storage_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
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
	"github.com/millstream-io/millstream/core/vfs"
)

var crashSeeds = flag.Uint64("crash-seeds", 0,
	"power cuts ahead of each change to the disk in TestCrashStates; 0: one ahead of every 40th")

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
	if seeds == 0 && s.mu.ops%40 == 0 {
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
	w.dir.ShortenJournal(5 << 10) // several laps
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

// sync waits as the policy of the log has it: what its synced offset says must be true then. Group
// commit takes other logs' appends along.
func (w *workload) sync(tp storage.TopicPartition) {
	l := w.logs[tp]
	if tp == alwaysLog {
		require.NoError(w.s.t, l.Sync(w.s.t.Context()))
		return
	}
	w.dir.FlushNow(w.s.t.Context(), l, w.logs[groupLog])
	require.Equal(w.s.t, l.EndOffset(), l.SyncedOffset())
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
	w.sync(tp)
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
	w.sync(compactLog)
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
	w.sync(txnLog)
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
