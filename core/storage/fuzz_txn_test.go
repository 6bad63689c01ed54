package storage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// FuzzTxnIndex opens a closed log beside a transaction index of any bytes: what aborted
// transactions it tells is what the log says, or an index that could be right but for this log.
func FuzzTxnIndex(f *testing.F) {
	entry := abortedTxn{producerID: 2, firstOffset: 1, lastOffset: 4}
	f.Add(entry.appendTo(nil))
	f.Add(append(entry.appendTo(nil), 0, 0))
	second := abortedTxn{producerID: 1, firstOffset: 0, lastOffset: 5, lastStableOffset: 6}
	f.Add(second.appendTo(entry.appendTo(nil)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, index []byte) {
		fsys := vfs.NewMem()
		d := mustOpen(t, fsys, "/data")
		l := mustCreate(t, d, DefaultConfig())
		mustTxnAppend(t, l, 1, 0, 0, 1)
		mustTxnAppend(t, l, 2, 0, 0, 2)
		mustEndTxn(t, l, abort, 2, 0)
		mustEndTxn(t, l, commit, 1, 0)
		want := readAll(t, l, 500)
		name := segmentFile("/data/orders-0", 0, suffixTxnIndex)
		require.NoError(t, d.Close())
		require.NoError(t, writeFile(fsys, name, index))
		d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data", NodeID: 1})
		require.NoError(t, err)
		defer func() { d.closeAll(); _ = d.lock.Close() }()
		l, _ = d.Log(tp0)
		require.NoError(t, l.Err())
		require.Equal(t, want, readAll(t, l, 500))
		l.SetHighWatermark(l.EndOffset())
		require.Equal(t, int64(5), l.LastStableOffset())
		list, err := l.AbortedTransactions(0, l.EndOffset())
		require.NoError(t, err)
		for i, a := range list {
			require.GreaterOrEqual(t, a.FirstOffset, int64(0))
			require.Less(t, a.FirstOffset, l.EndOffset())
			require.True(t, i == 0 || list[i-1].FirstOffset <= a.FirstOffset)
		}
	})
}

// FuzzTransactions appends batches and markers of a few producers in any order, and compares the
// last stable offset and the aborted list with a plain model; a restart agrees.
func FuzzTransactions(f *testing.F) {
	f.Add([]byte{0x00, 0x01, 0x40, 0x81, 0x02})
	f.Add([]byte{0x00, 0x00, 0x41, 0x01, 0x80, 0xc0, 0x41})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 64 {
			return
		}
		fsys := vfs.NewMem()
		d := mustOpen(t, fsys, "/data")
		l := mustCreate(t, d, DefaultConfig())
		m := newTxnModel()
		for _, op := range ops {
			pid := int64(op & 3)
			switch op >> 6 {
			case 0, 1:
				mustTxnAppend(t, l, pid, 0, m.sequence[pid], 1)
				m.append(pid, l.EndOffset()-1)
			default:
				kind := commit
				if op>>6 == 3 {
					kind = abort
				}
				mustEndTxn(t, l, kind, pid, 0)
				m.end(pid, l.EndOffset()-1, kind)
			}
		}
		require.NoError(t, l.Sync(t.Context()))
		l.SetHighWatermark(l.EndOffset())
		m.check(t, l)
		require.NoError(t, d.Close())
		d = mustOpen(t, fsys, "/data")
		again, _ := d.Log(tp0)
		again.SetHighWatermark(again.EndOffset())
		m.check(t, again)
		require.NoError(t, d.Close())
	})
}

// txnModel is what KIP-98 says, in the plainest form.
type txnModel struct {
	sequence map[int64]int32
	open     map[int64]int64 // producer to the first offset of its transaction
	aborted  []abortedTxn
}

func newTxnModel() *txnModel {
	return &txnModel{sequence: map[int64]int32{}, open: map[int64]int64{}}
}

func (m *txnModel) append(pid, offset int64) {
	m.sequence[pid]++
	if _, ok := m.open[pid]; !ok {
		m.open[pid] = offset
	}
}

func (m *txnModel) end(pid, offset int64, kind record.ControlType) {
	first, ok := m.open[pid]
	delete(m.open, pid)
	if ok && kind == abort {
		m.aborted = append(m.aborted, abortedTxn{producerID: pid, firstOffset: first,
			lastOffset: offset})
	}
}

// check compares every range of offsets.
func (m *txnModel) check(t *testing.T, l *Log) {
	t.Helper()
	stable := l.EndOffset()
	for _, first := range m.open {
		stable = min(stable, first)
	}
	require.Equal(t, stable, l.LastStableOffset())
	for from := int64(0); from <= l.EndOffset(); from += 3 {
		for upTo := from; upTo <= l.EndOffset(); upTo += 5 {
			want := 0
			for _, a := range m.aborted {
				if a.firstOffset < upTo && a.lastOffset >= from {
					want++
				}
			}
			require.Len(t, aborted(t, l, from, upTo), want, "[%d, %d)", from, upTo)
		}
	}
}
