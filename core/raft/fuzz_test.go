package raft

import (
	"testing"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// FuzzStateFiles reads any bytes as the node's files: an error, never a panic, and what is accepted
// was written by this code.
func FuzzStateFiles(f *testing.F) {
	mem := vfs.NewMem()
	id := snapshotID{index: 7, term: 2}
	require.NoError(f, saveQuorumState(mem, "/", quorumState{ID: 1, Term: 3, Voters: []uint64{1}}))
	require.NoError(f, writeSnapshot(mem, "/", snapshot{id, []uint64{1}, []byte("state")}))
	for _, name := range []string{quorumStateName, id.fileName()} {
		data, err := vfs.ReadFile(mem, "/"+name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := vfs.NewMem()
		for _, name := range []string{quorumStateName, id.fileName()} {
			require.NoError(t, vfs.WriteFileAtomic(mem, "/"+name, data, 0o644))
		}
		if s, known, err := loadQuorumState(mem, "/"); err == nil && known {
			require.NoError(t, saveQuorumState(mem, "/", s))
		}
		if s, err := readSnapshot(mem, "/", id); err == nil {
			require.Equal(t, id, s.snapshotID)
		}
	})
}

// FuzzEntry reads any bytes as an entry of the log.
func FuzzEntry(f *testing.F) {
	s := &store{now: time.Now, builder: record.NewBuilder(record.BuilderOptions{})}
	require.NoError(f, s.encode(&raftpb.Entry{Index: proto.Uint64(5), Term: proto.Uint64(2),
		Type: raftpb.EntryNormal.Enum(), Data: []byte("command of an entry")}))
	f.Add(s.buf)
	f.Fuzz(func(t *testing.T, data []byte) {
		batch, _, err := record.Next(data)
		if err != nil {
			return
		}
		e, err := decodeEntry(batch, batch.BaseOffset())
		if err != nil {
			return
		}
		require.Equal(t, uint64(batch.LeaderEpoch()), e.GetTerm())
		_, _, _, _ = unmark(e.Data)
	})
}

func TestSnapshotNames(t *testing.T) {
	id := snapshotID{index: 1 << 40, term: 12}
	got, ok := parseSnapshotName(id.fileName())
	require.True(t, ok)
	require.Equal(t, id, got)
	for _, name := range []string{"snapshot-1-2", id.fileName() + ".tmp", "quorum-state", "snapshot-",
		"snapshot-00000000000000000001-0000000000000000000x"} {
		_, ok := parseSnapshotName(name)
		require.False(t, ok, name)
	}
}
