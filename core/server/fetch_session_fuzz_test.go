package server

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// sessionModel is what KIP-227 says of one session, in the plainest form.
type sessionModel struct {
	order []int32         // as they are read
	told  map[int32]int64 // the high watermark that the client knows; absent: none
}

func (m *sessionModel) add(p int32) {
	if !slices.Contains(m.order, p) {
		m.order = append(m.order, p)
		delete(m.told, p)
	}
}

func (m *sessionModel) forget(p int32) {
	m.order = slices.DeleteFunc(m.order, func(o int32) bool { return o == p })
}

// answer returns which partitions are told, given the high watermark of each, those with records
// and those with an error.
func (m *sessionModel) answer(mark, records, errors func(p int32) int64) []int32 {
	var told, last []int32
	for _, p := range slices.Clone(m.order) {
		known, ok := m.told[p]
		if !ok || known != mark(p) || records(p) != 0 || errors(p) != 0 {
			told = append(told, p)
		}
		m.told[p] = mark(p)
		if errors(p) != 0 {
			delete(m.told, p)
		} else if records(p) != 0 {
			m.forget(p)
			last = append(last, p)
		}
	}
	m.order = append(m.order, last...)
	return told
}

// FuzzFetchSession sends incremental requests that add and forget partitions of which some move,
// have records or an error, and compares which ones the answer names, and in which order.
func FuzzFetchSession(f *testing.F) {
	dir, err := storage.OpenDir(f.Context(), storage.DirOptions{
		FS: vfs.NewMem(), Path: "/data", NodeID: 1,
	})
	require.NoError(f, err)
	f.Cleanup(func() { _ = dir.Close() })
	replicas, err := replica.New(replica.Options{Dir: dir})
	require.NoError(f, err)
	f.Add([]byte{0b0111, 0, 0, 0, 0b0001, 0b0010, 0b0100, 0b1000})
	f.Add([]byte{0b1111, 0, 0b0101, 0, 0, 0b0001, 0, 0b0001, 0, 0b1111, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		s := &Server{opts: Options{Replicas: replicas}}
		s.sessions = newFetchSessionCache(0, fetchSessionMemory)
		session := newFetchSession(false)
		require.True(t, s.sessions.add(session, time.Now()))
		m := &sessionModel{told: map[int32]int64{}}
		epoch, marks := int32(1), [8]int64{}
		for ; len(script) >= 4; script = script[4:] {
			op := s.takeFetchOp()
			op.c, op.head.Version = &conn{s: s}, 12
			op.req.SessionID, op.req.SessionEpoch = session.id, epoch
			stepSession(op, m, script)
			code := session.begin(op, s.sessions)
			require.Zero(t, code)
			if len(m.order) == 0 {
				require.Nil(t, op.session)
				require.Nil(t, s.sessions.find(session.id))
				checkSums(t, s.sessions)
				return
			}
			epoch++
			bit := func(b byte, p int32) int64 { return int64(b >> p & 1) }
			for i := range op.parts {
				part := &op.parts[i]
				marks[part.Index] += bit(script[2], part.Index)
				part.result = protocol.FetchResult{Index: part.Index,
					HighWatermark: marks[part.Index], LastStableOffset: marks[part.Index],
					RecordBytes: int(bit(script[3]&^script[1], part.Index)),
					ErrorCode:   int16(bit(script[1]>>4, part.Index)),
				}
				if part.result.ErrorCode != 0 {
					part.result.RecordBytes = 0
				}
			}
			checkSessionAnswer(t, op, m, script, marks)
			checkSums(t, s.sessions)
		}
	})
}

// stepSession puts what a step of the script adds and forgets into a request and the model.
func stepSession(op *fetchOp, m *sessionModel, script []byte) {
	topic := protocol.FetchTopic{Name: []byte("t")}
	op.req.Topics = append(op.req.Topics[:0], topic)
	op.req.Partitions, op.req.Forgotten = op.req.Partitions[:0], append(op.req.Forgotten[:0], topic)
	op.req.ForgottenPartitions = op.req.ForgottenPartitions[:0]
	for p := range int32(8) {
		if script[0]>>p&1 == 1 {
			op.req.Partitions = append(op.req.Partitions, protocol.FetchPartition{Index: p})
			m.add(p)
		}
	}
	for p := range int32(4) {
		if script[1]>>p&1 == 1 {
			op.req.ForgottenPartitions = append(op.req.ForgottenPartitions, p)
			m.forget(p)
		}
	}
	op.req.Topics[0].End = len(op.req.Partitions)
	op.req.Forgotten[0].End = len(op.req.ForgottenPartitions)
}

// checkSessionAnswer compares the answer that op would give with the model's.
func checkSessionAnswer(t *testing.T, op *fetchOp, m *sessionModel, script []byte, marks [8]int64) {
	t.Helper()
	var order, told []int32
	for i := range op.parts {
		order = append(order, op.parts[i].Index)
	}
	require.Equal(t, m.order, order)
	require.Zero(t, op.session.settle(op))
	omitted := 0
	for i := range op.parts {
		if op.parts[i].omit {
			omitted++
		} else {
			told = append(told, op.parts[i].Index)
		}
	}
	failed := func(p int32) int64 { return int64(script[1] >> 4 >> p & 1) }
	records := func(p int32) int64 {
		if failed(p) != 0 {
			return 0
		}
		return int64((script[3] &^ script[1]) >> p & 1)
	}
	want := m.answer(func(p int32) int64 { return marks[p] }, records, failed)
	require.Equal(t, want, told)
	counted := 0
	for i := range op.topics {
		counted += op.topics[i].omitted
	}
	require.Equal(t, omitted, counted)
}
