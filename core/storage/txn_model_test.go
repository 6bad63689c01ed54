package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

// txnStep is one batch of a journal: data of a producer, or a marker.
type txnStep struct {
	base, next int64
	producer   int64
	epoch      int16
	sequence   int32 // of the last record
	txn        bool
	marker     bool
	abort      bool
}

// journal is what was appended, in order: the model of a log with transactions.
type journal []txnStep

// cut forgets what the log does not have any more. A batch is there as a whole or not at all, but
// for one that holds the log's start: without it the log begins anew there.
func (j journal) cut(t tester, l *Log) journal {
	end := l.EndOffset()
	n := 0
	for n < len(j) && j[n].next <= end {
		n++
	}
	if end > l.StartOffset() {
		require.Equal(t, end, j[n-1].next, "half a batch")
	}
	return slices.Clone(j[:n])
}

// decision returns the marker of the transaction that step i belongs to; false if it is open.
func (j journal) decision(i int) (txnStep, bool) {
	for _, s := range j[i+1:] {
		if s.marker && s.producer == j[i].producer {
			return s, true
		}
	}
	return txnStep{}, false
}

// lastStable is the definition, by trying: the first offset, from base on, of which a transaction
// is not decided below the high watermark.
func (j journal) lastStable(base, highWatermark int64) int64 {
	for i, s := range j {
		if !s.txn || s.marker || s.base < base {
			continue
		}
		if m, ok := j.decision(i); !ok || m.base >= highWatermark {
			return min(s.base, highWatermark)
		}
	}
	return highWatermark
}

// visible returns the base offsets of the batches that read committed shows in [start, end).
func (j journal) visible(start, end int64) []int64 {
	var list []int64
	for i, s := range j {
		if s.marker || s.next <= start || s.next > end {
			continue
		}
		if m, ok := j.decision(i); !s.txn || ok && !m.abort {
			list = append(list, s.base)
		}
	}
	return list
}

// index returns the entries of .txnindex files, by marker.
func (j journal) index() []abortedTxn {
	var list []abortedTxn
	open := map[int64]int64{}
	for _, s := range j {
		first, isOpen := open[s.producer]
		switch {
		case s.txn && !s.marker && !isOpen:
			open[s.producer] = s.base
		case s.marker && isOpen:
			delete(open, s.producer)
			stable := s.next
			for _, other := range open {
				stable = min(stable, other)
			}
			if s.abort {
				list = append(list, abortedTxn{s.producer, first, s.base, stable})
			}
		}
	}
	return list
}

// producers returns what DescribeProducers would.
func (j journal) producers() []ProducerInfo {
	byID := map[int64]*ProducerInfo{}
	for _, s := range j {
		p := byID[s.producer]
		if p == nil {
			p = &ProducerInfo{ID: s.producer, CoordinatorEpoch: -1, TxnStartOffset: -1}
			byID[s.producer] = p
		}
		if p.Epoch != s.epoch || p.LastTimestamp == 0 {
			p.Epoch, p.LastSequence = s.epoch, -1
		}
		p.LastTimestamp = t0
		switch {
		case s.marker:
			p.CoordinatorEpoch, p.TxnStartOffset = 1, -1
		case s.txn && p.TxnStartOffset < 0:
			p.TxnStartOffset = s.base
			fallthrough
		default:
			p.LastSequence = s.sequence
		}
	}
	list := []ProducerInfo{}
	for id := range int64(8) {
		if p := byID[id]; p != nil {
			list = append(list, *p)
		}
	}
	return list
}

// readCommitted reads one chunk below stable as a consumer with read_committed does (KIP-98): it
// asks for the aborted transactions of the chunk and skips a producer's batches from the first
// offset to the marker. It returns what it shows and where to go on.
func readCommitted(l *Log, at, stable int64, maxBytes int) ([]record.Batch, int64, error) {
	c, err := l.Read(at, maxBytes, stable, true)
	if err != nil || c.Len() == 0 {
		return nil, at, err
	}
	data, err := c.AppendTo(nil)
	next := c.NextOffset()
	c.Release()
	if err != nil {
		return nil, at, err
	}
	list, err := l.AbortedTransactions(at, next)
	if err != nil {
		return nil, at, err
	}
	hidden := map[int64]bool{}
	var shown []record.Batch
	for len(data) > 0 {
		var b record.Batch
		if b, data, err = record.Next(data); err != nil {
			return nil, at, err
		}
		for len(list) > 0 && list[0].FirstOffset <= b.LastOffset() {
			hidden[list[0].ProducerID] = true
			list = list[1:]
		}
		m, _, err := readMarker(b)
		switch {
		case b.IsControl() && err != nil:
			return nil, at, err
		case b.IsControl() && m.abort:
			delete(hidden, b.ProducerID())
		case !b.IsControl() && (!b.IsTransactional() || !hidden[b.ProducerID()]):
			shown = append(shown, b)
		}
	}
	return shown, next, nil
}

// visibleIn returns the base offsets of all batches that readCommitted shows.
func visibleIn(t tester, l *Log, maxBytes int) []int64 {
	t.Helper()
	var offsets []int64
	for at, stable := l.StartOffset(), l.LastStableOffset(); at < stable; {
		shown, next, err := readCommitted(l, at, stable, maxBytes)
		require.NoError(t, err)
		for _, b := range shown {
			offsets = append(offsets, b.BaseOffset())
		}
		if next == at { // stable is inside a batch, whose head was deleted
			break
		}
		at = next
	}
	return offsets
}

// txnWriter appends random batches of six producers, the last of which has no transactions, and
// keeps the journal. Producers go on where the log says that they are.
type txnWriter struct {
	journal journal
	pick    func(n int) int // a random number in [0, n)
}

func (w *txnWriter) write(t tester, l *Log, epoch int32) {
	id := int64(w.pick(6))
	state := ProducerInfo{ID: id, LastSequence: -1, TxnStartOffset: -1}
	for _, p := range l.Producers() {
		if p.ID == id {
			state = p
		}
	}
	s := txnStep{producer: id, epoch: state.Epoch, txn: id < 5}
	o := AppendOptions{LeaderEpoch: epoch, TransactionVersion: 2}
	var batch record.Batch
	if s.txn && w.pick(3) == 0 {
		// A marker; without an open transaction it is a repeat, or one of an empty transaction.
		s.marker, s.abort, s.epoch = true, w.pick(3) > 0, state.Epoch+1
		kind := commit
		if s.abort {
			kind = abort
		}
		o.Origin = FromTxnCoordinator
		batch = record.ControlBatch(record.ControlOptions{Type: kind, ProducerID: id,
			ProducerEpoch: s.epoch, CoordinatorEpoch: 1, Timestamp: t0})
	} else {
		n := 1 + w.pick(2)
		s.sequence = state.LastSequence + int32(n)
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Idempotent: true,
			Transactional: s.txn, ProducerID: id, ProducerEpoch: s.epoch,
			BaseSequence: state.LastSequence + 1})
		for i := range n {
			b.Append(record.Record{Timestamp: t0, Value: fmt.Appendf(nil, "%d/%d", id, i)})
		}
		var err error
		batch, err = b.Build()
		require.NoError(t, err)
		if s.txn {
			o.Guard, _, err = l.StartVerification(id, s.epoch, state.LastSequence+1)
			require.NoError(t, err)
		}
	}
	s.base = l.EndOffset()
	s.next = s.base + int64(batch.Count())
	// Before the append: a power cut may come in it.
	w.journal = append(w.journal, s)
	res, err := l.Append(batch, o)
	require.NoError(t, err)
	require.Equal(t, s.base, res.BaseOffset)
	require.Equal(t, s.next, l.EndOffset())
}

// checkTxns compares a log, whose high watermark is known, with its journal.
func checkTxns(t tester, l *Log, j journal, maxBytes int) {
	t.Helper()
	first := (*l.segments.Load())[0].base
	start, hw, stable := l.StartOffset(), l.HighWatermark(), l.LastStableOffset()
	want := []int64{max(j.lastStable(0, hw), start)}
	if first > 0 { // what is not in the log any more may be forgotten by a crash
		want = append(want, max(j.lastStable(first, hw), start))
	}
	require.Contains(t, want, stable, "last stable offset, start %d, high watermark %d", start, hw)
	require.Equal(t, j.visible(start, stable), visibleIn(t, l, maxBytes), "start %d", start)
	if first > 0 {
		return
	}
	require.Equal(t, j.producers(), l.Producers())
	var index []abortedTxn
	for _, s := range *l.segments.Load() {
		collect := func(a *abortedTxn) bool { index = append(index, *a); return true }
		if s.mu.aborts.entries != nil {
			s.mu.aborts.eachInMemory(0, collect)
		} else {
			require.NoError(t, s.mu.aborts.eachInFile(0, collect))
		}
	}
	require.Equal(t, j.index(), index)
}

// TestCrashKeepsTransactions cuts the power at every step of a log with transactions: appends,
// markers, rolls, checkpoints, deletions, clean shutdown and restart.
func TestCrashKeepsTransactions(t *testing.T) {
	for _, policy := range []FlushPolicy{FlushAlways, FlushGroup} {
		t.Run(string(policy), func(t *testing.T) {
			rec, fsys := newCrashRecorder(2)
			w := &txnWriter{pick: rand.New(rand.NewPCG(1, 7)).IntN}
			txnCrashWorkload(t, rec, fsys, policy, w)
			require.Greater(t, len(rec.points), 1000)
			t.Logf("%d crash points, %d batches", len(rec.points), len(w.journal))
			for _, p := range rec.points {
				if !p.created {
					continue
				}
				p.checkTxns(t, w.journal)
			}
		})
	}
}

func txnCrashWorkload(t *testing.T, rec *crashRecorder, fsys vfs.FS, policy FlushPolicy,
	w *txnWriter,
) {
	c := smallConfig()
	c.SegmentBytes, c.Flush, c.RetentionBytes = 700, policy, 2500
	d := mustOpen(t, fsys, "/data")
	l := mustCreate(t, d, c)
	rec.now.created = true
	write := func(n int) {
		for i := range n {
			w.write(t, l, 0)
			if policy == FlushGroup && i%3 == 0 {
				require.NoError(t, l.Sync(t.Context()))
			}
			l.SetHighWatermark(l.SyncedOffset())
			rec.now.end = l.SyncedOffset()
		}
	}
	write(30)
	require.NoError(t, d.saveCheckpoints())
	write(30)
	require.NoError(t, d.Close())
	rec.now.end = l.EndOffset()
	d = mustOpen(t, fsys, "/data")
	l = mustCreate(t, d, c)
	write(20)
	require.NotEmpty(t, w.journal.index())
	d.ApplyRetention()
	require.Positive(t, l.StartOffset(), "retention did nothing")
	write(10)
	require.NoError(t, l.DeleteRecordsBefore(l.SyncedOffset()-5))
	write(10)
	require.NoError(t, d.Close())
}

// checkTxns opens the disk after the cut, compares the log with the journal, and goes on writing.
func (c crashPoint) checkTxns(t *testing.T, j journal) {
	t.Helper()
	vfstest.Keep(t, c.disk, "/data")
	d, err := OpenDir(t.Context(), DirOptions{FS: c.disk, Path: "/data", NodeID: 1,
		Now: newTestClock().now})
	require.NoError(t, err, c.step)
	defer func() { d.closeAll(); _ = d.lock.Close() }()
	l, ok := d.Log(tp0)
	require.True(t, ok, c.step)
	require.NoError(t, l.Err(), c.step)
	end := l.EndOffset()
	require.GreaterOrEqual(t, end, c.end, "acknowledged, crash ahead of %q, seed %d", c.step, c.seed)
	l.SetHighWatermark(end)
	w := &txnWriter{journal: j.cut(t, l), pick: rand.New(rand.NewPCG(c.seed, 1)).IntN}
	defer func() {
		if t.Failed() {
			t.Logf("crash ahead of %q, seed %d", c.step, c.seed)
		}
	}()
	checkTxns(t, l, w.journal, 1000)
	for range 5 {
		w.write(t, l, 99)
	}
	l.SetHighWatermark(l.EndOffset())
	checkTxns(t, l, w.journal, 300)
}

// txnLogModel is a log with transactions beside its journal.
type txnLogModel struct {
	disk   *vfs.Mem
	dir    *Dir
	log    *Log
	config Config
	w      txnWriter
	start  int64
	synced int64
	stable int64 // the last stable offset that was seen
}

func (m *txnLogModel) open(t *rapid.T) {
	var err error
	m.dir, err = OpenDir(context.Background(), DirOptions{FS: m.disk, Path: "/data",
		Now: newTestClock().now})
	require.NoError(t, err)
	m.log, err = m.dir.Create(tp0, topicA, m.config)
	require.NoError(t, err)
	end := m.log.EndOffset()
	require.GreaterOrEqual(t, end, m.synced)
	m.w.journal = m.w.journal.cut(t, m.log)
	m.log.SetHighWatermark(end)
	m.start, m.synced, m.stable = m.log.StartOffset(), end, 0
}

// Write appends batches and markers.
func (m *txnLogModel) Write(t *rapid.T) {
	m.w.pick = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
	for range rapid.IntRange(1, 8).Draw(t, "batches") {
		m.w.write(t, m.log, 0)
	}
	if m.config.Flush == FlushAlways {
		m.synced = m.log.EndOffset()
	}
}

// Commit raises the high watermark, or tries to lower it.
func (m *txnLogModel) Commit(t *rapid.T) {
	m.log.SetHighWatermark(rapid.Int64Range(0, m.log.EndOffset()).Draw(t, "high watermark"))
}

// Sync makes everything durable.
func (m *txnLogModel) Sync(t *rapid.T) {
	require.NoError(t, m.log.Sync(context.Background()))
	m.synced = m.log.EndOffset()
}

// Truncate cuts the log as a follower does.
func (m *txnLogModel) Truncate(t *rapid.T) {
	at := rapid.Int64Range(m.start, m.log.EndOffset()).Draw(t, "truncate")
	require.NoError(t, m.log.TruncateTo(at))
	end := m.log.EndOffset()
	m.w.journal = m.w.journal.cut(t, m.log)
	m.log.SetHighWatermark(end)
	m.start, m.synced, m.stable = min(m.start, end), min(m.synced, end), 0
}

// DeleteRecords moves the start.
func (m *txnLogModel) DeleteRecords(t *rapid.T) {
	at := rapid.Int64Range(0, m.log.HighWatermark()).Draw(t, "delete")
	require.NoError(t, m.log.DeleteRecordsBefore(at))
	m.start = max(m.start, at)
}

// Retain applies retention.bytes up to the high watermark.
func (m *txnLogModel) Retain(t *rapid.T) {
	m.dir.ApplyRetention()
	m.start = m.log.StartOffset()
}

// Restart closes in order and opens again.
func (m *txnLogModel) Restart(t *rapid.T) {
	require.NoError(t, m.dir.Close())
	m.synced = m.log.EndOffset()
	m.open(t)
}

// Kill loses the process, not the page cache.
func (m *txnLogModel) Kill(t *rapid.T) {
	m.dir.closeAll()
	require.NoError(t, m.dir.lock.Close())
	m.open(t)
}

// PowerCut loses what was not synced, or some of it.
func (m *txnLogModel) PowerCut(t *rapid.T) {
	disk := m.disk.CrashClone(rapid.Uint64().Draw(t, "seed"))
	m.dir.closeAll()
	require.NoError(t, m.dir.lock.Close())
	m.disk = disk
	m.open(t)
}

// Check compares the log with the journal. The last stable offset never goes back (redpanda#7544).
func (m *txnLogModel) Check(t *rapid.T) {
	require.NoError(t, m.log.Err())
	stable := m.log.LastStableOffset()
	require.LessOrEqual(t, stable, m.log.HighWatermark())
	require.GreaterOrEqual(t, stable, m.stable)
	m.stable = stable
	checkTxns(t, m.log, m.w.journal, rapid.IntRange(1, 2000).Draw(t, "maxBytes"))
}

func TestTransactionsAgainstAJournal(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		m := &txnLogModel{disk: vfs.NewMem(), config: DefaultConfig()}
		m.config.SegmentBytes = rapid.Int64Range(400, 3000).Draw(t, "segment.bytes")
		m.config.IndexIntervalBytes = rapid.IntRange(1, 1000).Draw(t, "interval")
		m.config.RetentionBytes = rapid.Int64Range(1000, 10000).Draw(t, "retention.bytes")
		m.config.Flush = rapid.SampledFrom([]FlushPolicy{FlushAlways, FlushGroup,
			FlushOS}).Draw(t, "flush")
		m.open(t)
		defer func() {
			m.log.SetHighWatermark(m.log.EndOffset())
			_ = m.dir.Close() // with an error if the model closed it before
			m.dir.closeAll()
			_ = m.dir.lock.Close()
			vfstest.Keep(outer, m.disk, "/data")
		}()
		checkpoint := func(t *rapid.T) { require.NoError(t, m.dir.saveCheckpoints()) }
		t.Repeat(map[string]func(*rapid.T){
			"write": m.Write, "write2": m.Write, "commit": m.Commit, "sync": m.Sync,
			"checkpoint": checkpoint, "truncate": m.Truncate, "deleteRecords": m.DeleteRecords,
			"retain": m.Retain, "restart": m.Restart, "kill": m.Kill, "powerCut": m.PowerCut,
			"": m.Check,
		})
	})
}
