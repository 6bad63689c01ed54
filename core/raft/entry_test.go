package raft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	raftpb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/millstream-io/millstream/core/record"
)

// TestEntryThatRottedAfterItsCheckIsRefused: the log proves its batches when they are read first,
// and not again. An entry that changes on the disk after that must not be sent to other nodes as if
// it had been agreed on: its CRC is looked at each time.
func TestEntryThatRottedAfterItsCheckIsRefused(t *testing.T) {
	s := &store{now: time.Now, builder: record.NewBuilder(record.BuilderOptions{})}
	require.NoError(t, s.encode(&raftpb.Entry{
		Index: proto.Uint64(8), Term: proto.Uint64(2), Type: raftpb.EntryNormal.Enum(),
		Data: []byte("agreed on"),
	}))
	_, err := decodeEntry(record.Batch(s.buf), 7)
	require.NoError(t, err)
	// The value and the count of headers are the last bytes.
	for at := len(s.buf) - len("agreed on") - 1; at < len(s.buf); at++ {
		s.buf[at] ^= 0x20
		_, err := decodeEntry(record.Batch(s.buf), 7)
		require.ErrorIs(t, err, ErrDamaged, "byte %d of %d", at, len(s.buf))
		s.buf[at] ^= 0x20
	}
}
