package raft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

const quorumStateName = "quorum-state"

// quorumState is what a node must remember before it answers anybody (Raft thesis, figure 3.1).
type quorumState struct {
	Version int      `json:"version"`
	ID      uint64   `json:"id"`     // of this node, to refuse a foreign directory
	Term    uint64   `json:"term"`   // latest seen
	Vote    uint64   `json:"vote"`   // given in that term, 0 = none
	Commit  uint64   `json:"commit"` // a lower bound of what is committed
	Voters  []uint64 `json:"voters"`
}

// writeBatchFile stores one record as a file with a CRC.
func writeBatchFile(fsys vfs.FS, name string, r record.Record) error {
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(r)
	batch, err := b.Build()
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := vfs.WriteFileAtomic(fsys, name, batch, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// readBatchFile is the inverse. The error is fs.ErrNotExist if there is no file, ErrDamaged if it
// is not what was written.
func readBatchFile(fsys vfs.FS, name string) (record.Record, error) {
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return record.Record{}, fmt.Errorf("read %s: %w", name, err)
	}
	damaged := func(err error) (record.Record, error) {
		return record.Record{}, fmt.Errorf("read %s: %w: %w", name, ErrDamaged, err)
	}
	batch, rest, err := record.Next(data)
	if err != nil {
		return damaged(err)
	}
	if err := batch.CheckCRC(); err != nil {
		return damaged(err)
	}
	records, err := batch.Records(len(batch))
	if err != nil {
		return damaged(err)
	}
	if len(records) != 1 || len(rest) != 0 {
		return damaged(errors.New("it does not hold one record"))
	}
	return records[0], nil
}

func saveQuorumState(fsys vfs.FS, dir string, s quorumState) error {
	value, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode quorum state: %w", err)
	}
	return writeBatchFile(fsys, filepath.Join(dir, quorumStateName), record.Record{Value: value})
}

// loadQuorumState returns false if the node has never had any.
func loadQuorumState(fsys vfs.FS, dir string) (quorumState, bool, error) {
	var s quorumState
	r, err := readBatchFile(fsys, filepath.Join(dir, quorumStateName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	if err := json.Unmarshal(r.Value, &s); err != nil {
		return s, false, fmt.Errorf("read %s: %w: %w", quorumStateName, ErrDamaged, err)
	}
	if s.Version != 0 {
		return s, false, fmt.Errorf("read %s: version %d: %w",
			quorumStateName, s.Version, ErrUnsupported)
	}
	return s, true, nil
}
