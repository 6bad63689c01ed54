package raft

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	etcdraft "go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// readChunk is how much of the log is read at once.
const readChunk = 1 << 20

// store is raft's storage: the entries since the snapshot in memory, which only ever holds what the
// log on the disk holds durably.
type store struct {
	*etcdraft.MemoryStorage
	log     *storage.Log
	voters  []uint64
	now     func() time.Time
	builder *record.Builder
	buf     []byte // encoded entries, reused
}

// InitialState returns term and vote, and the voters.
func (s *store) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	hard, _, err := s.MemoryStorage.InitialState()
	return hard, &raftpb.ConfState{Voters: slices.Clone(s.voters)}, err
}

// append makes entries durable, in place of those at the same indexes and later ones.
func (s *store) append(entries []*raftpb.Entry) error {
	first := int64(entries[0].GetIndex()) - 1 // as an offset
	if first < s.log.EndOffset() {
		if err := s.log.TruncateTo(first); err != nil {
			return fmt.Errorf("truncate the raft log to %d: %w", first, err)
		}
	}
	if end := s.log.EndOffset(); first != end {
		return fmt.Errorf("append raft entry %d to a log that ends at %d: %w",
			first+1, end, ErrDamaged)
	}
	s.buf = s.buf[:0]
	for _, e := range entries {
		if err := s.encode(e); err != nil {
			return err
		}
	}
	_, err := s.log.Append(s.buf, storage.AppendOptions{Origin: storage.Replicated})
	if err != nil {
		return fmt.Errorf("append raft entries: %w", err)
	}
	if err := s.log.Sync(context.Background()); err != nil {
		return fmt.Errorf("sync the raft log: %w", err)
	}
	if err := s.Append(entries); err != nil {
		return fmt.Errorf("keep raft entries: %w", err)
	}
	return nil
}

// entryKeySize is the size of an entry's key: type int8 | index int64 | term int64. Index and term
// are the batch's offset and epoch too, but those lie outside its CRC.
const entryKeySize = 17

// encode appends an entry to buf: a batch of one record, so that a conflict can be cut at any
// entry. The value holds its data.
func (s *store) encode(e *raftpb.Entry) error {
	if e.GetTerm() > math.MaxInt32 {
		return fmt.Errorf("raft term %d does not fit a leader epoch", e.GetTerm())
	}
	s.builder.Reset(record.BuilderOptions{
		BaseOffset:  int64(e.GetIndex()) - 1,
		LeaderEpoch: int32(e.GetTerm()),
	})
	s.builder.Append(record.Record{
		Timestamp: s.now().UnixMilli(),
		Key:       entryKey(e.GetType(), e.GetIndex(), e.GetTerm()),
		Value:     e.Data,
	})
	batch, err := s.builder.Build()
	if err != nil {
		return fmt.Errorf("encode raft entry %d: %w", e.GetIndex(), err)
	}
	s.buf = append(s.buf, batch...)
	return nil
}

func entryKey(t raftpb.EntryType, index, term uint64) []byte {
	key := append(make([]byte, 0, entryKeySize), byte(t))
	key = binary.BigEndian.AppendUint64(key, index)
	return binary.BigEndian.AppendUint64(key, term)
}

// readEntries returns the log's entries from an index to its end, each with its checksum verified.
func readEntries(log *storage.Log, from uint64) ([]*raftpb.Entry, error) {
	var entries []*raftpb.Entry
	var buf []byte
	end := log.EndOffset()
	for next := int64(from) - 1; next < end; {
		chunk, err := log.Read(next, readChunk, end, true)
		if err != nil {
			return nil, fmt.Errorf("read raft log at %d: %w", next, err)
		}
		buf, err = chunk.AppendTo(buf[:0])
		chunk.Release()
		if err != nil {
			return nil, fmt.Errorf("read raft log at %d: %w", next, err)
		}
		if len(buf) == 0 {
			return nil, fmt.Errorf("raft log has nothing at %d, before its end %d: %w",
				next, end, ErrDamaged)
		}
		for rest := buf; len(rest) > 0; {
			var batch record.Batch
			if batch, rest, err = record.Next(rest); err != nil {
				return nil, fmt.Errorf("read raft log at %d: %w: %w", next, ErrDamaged, err)
			}
			e, err := decodeEntry(batch, next)
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
			next++
		}
	}
	return entries, nil
}

// decodeEntry reads the entry that must lie at an offset.
func decodeEntry(b record.Batch, offset int64) (*raftpb.Entry, error) {
	if err := b.CheckCRC(); err != nil {
		return nil, fmt.Errorf("raft entry %d: %w: %w", offset+1, ErrDamaged, err)
	}
	records, err := b.Records(len(b))
	if err != nil {
		return nil, fmt.Errorf("raft entry %d: %w: %w", offset+1, ErrDamaged, err)
	}
	if len(records) != 1 || len(records[0].Key) != entryKeySize {
		return nil, fmt.Errorf("raft entry %d: it is no entry: %w", offset+1, ErrDamaged)
	}
	key := records[0].Key
	kind := raftpb.EntryType(key[0])
	index, term := binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])
	if index != uint64(offset)+1 || b.BaseOffset() != offset || term != uint64(b.LeaderEpoch()) {
		return nil, fmt.Errorf("raft entry %d: it is entry %d of term %d, at offset %d, epoch %d: %w",
			offset+1, index, term, b.BaseOffset(), b.LeaderEpoch(), ErrDamaged)
	}
	if kind != raftpb.EntryNormal {
		return nil, fmt.Errorf("raft entry %d changes the voters: %w", offset+1, ErrUnsupported)
	}
	return &raftpb.Entry{
		Index: proto.Uint64(index), Term: proto.Uint64(term), Type: kind.Enum(),
		Data: slices.Clone(records[0].Value),
	}, nil
}
