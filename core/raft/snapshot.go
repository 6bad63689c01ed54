package raft

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

const (
	snapshotPrefix = "snapshot-"
	// keptSnapshots are left when a new one is made, so that a damaged one is not the only one.
	keptSnapshots = 2
)

// snapshotID is the last entry a snapshot covers.
type snapshotID struct{ index, term uint64 }

// snapshot is the state machine's state after an entry.
type snapshot struct {
	snapshotID
	voters []uint64
	data   []byte
}

// snapshotMeta is the key of a snapshot file's record.
type snapshotMeta struct {
	Version int      `json:"version"`
	Index   uint64   `json:"index"`
	Term    uint64   `json:"term"`
	Voters  []uint64 `json:"voters"`
}

func (id snapshotID) fileName() string {
	return fmt.Sprintf("%s%020d-%020d", snapshotPrefix, id.index, id.term)
}

func parseSnapshotName(name string) (snapshotID, bool) {
	var id snapshotID
	if !strings.HasPrefix(name, snapshotPrefix) {
		return id, false
	}
	_, err := fmt.Sscanf(name[len(snapshotPrefix):], "%020d-%020d", &id.index, &id.term)
	return id, err == nil && id.fileName() == name
}

func writeSnapshot(fsys vfs.FS, dir string, s snapshot) error {
	key, err := json.Marshal(snapshotMeta{Index: s.index, Term: s.term, Voters: s.voters})
	if err != nil {
		return fmt.Errorf("encode snapshot: %w", err)
	}
	name := filepath.Join(dir, s.fileName())
	return writeBatchFile(fsys, name, record.Record{Key: key, Value: s.data})
}

func readSnapshot(fsys vfs.FS, dir string, id snapshotID) (snapshot, error) {
	var s snapshot
	r, err := readBatchFile(fsys, filepath.Join(dir, id.fileName()))
	if err != nil {
		return s, err
	}
	var meta snapshotMeta
	if err := json.Unmarshal(r.Key, &meta); err != nil {
		return s, fmt.Errorf("read %s: %w: %w", id.fileName(), ErrDamaged, err)
	}
	if meta.Version != 0 {
		return s, fmt.Errorf("read %s: version %d: %w", id.fileName(), meta.Version, ErrUnsupported)
	}
	if meta.Index != id.index || meta.Term != id.term {
		return s, fmt.Errorf("read %s: it holds entry %d of term %d: %w",
			id.fileName(), meta.Index, meta.Term, ErrDamaged)
	}
	return snapshot{snapshotID: id, voters: meta.Voters, data: r.Value}, nil
}

// listSnapshots returns the snapshots of a directory, the newest first.
func listSnapshots(fsys vfs.FS, dir string) ([]snapshotID, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var ids []snapshotID
	for _, e := range entries {
		if id, ok := parseSnapshotName(e.Name()); ok {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b snapshotID) int { return -cmp.Compare(a.index, b.index) })
	return ids, nil
}

// loadSnapshot returns the newest snapshot that can be read, and false if there is none. Damaged
// ones are reported to skipped; whether the log covers an older one, or none, the caller checks.
func loadSnapshot(
	fsys vfs.FS, dir string, skipped func(snapshotID, error),
) (snapshot, bool, error) {
	ids, err := listSnapshots(fsys, dir)
	if err != nil {
		return snapshot{}, false, err
	}
	for _, id := range ids {
		s, err := readSnapshot(fsys, dir, id)
		if err == nil {
			return s, true, nil
		}
		if !errors.Is(err, ErrDamaged) {
			return snapshot{}, false, err
		}
		skipped(id, err)
	}
	return snapshot{}, false, nil
}

// pruneSnapshots removes all but the newest and what crashes left half written. It returns the
// oldest one that is kept, or the zero id while there are fewer than keptSnapshots: the log must
// then cover everything.
func pruneSnapshots(fsys vfs.FS, dir string) (snapshotID, error) {
	ids, err := listSnapshots(fsys, dir)
	if err != nil {
		return snapshotID{}, err
	}
	for _, id := range ids[min(keptSnapshots, len(ids)):] {
		err := fsys.Remove(filepath.Join(dir, id.fileName()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return snapshotID{}, fmt.Errorf("remove an old snapshot: %w", err)
		}
	}
	if len(ids) < keptSnapshots {
		return snapshotID{}, nil
	}
	return ids[keptSnapshots-1], nil
}
