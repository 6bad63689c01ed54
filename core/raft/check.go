package raft

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// CheckedLog is what CheckState has to know of LogPartition.
type CheckedLog struct {
	// First is the first entry's index, Last that of the last one, LastTerm its term; all 0 if the
	// log is empty.
	First, Last, LastTerm uint64
}

// Add takes a batch of LogPartition, whose CRC is right, and says what is wrong with it.
func (l *CheckedLog) Add(b record.Batch) error {
	e, err := decodeEntry(b, b.BaseOffset())
	if err != nil {
		return err
	}
	if l.First == 0 {
		l.First = e.GetIndex()
	}
	if e.GetTerm() < l.LastTerm {
		err = fmt.Errorf("raft entry %d: term %d follows %d: %w", e.GetIndex(), e.GetTerm(),
			l.LastTerm, ErrDamaged)
	}
	l.Last, l.LastTerm = e.GetIndex(), max(e.GetTerm(), l.LastTerm)
	return err
}

// CheckState reads what a node keeps beside its log in Options.Dir, and calls damaged with each
// file that is wrong; note is one that the next start removes, or survives without.
func CheckState(fsys vfs.FS, dir string, log CheckedLog,
	damaged func(file string, note bool, err error),
) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("check raft state: %w", err)
	}
	var good, bad []snapshotID
	for _, e := range entries {
		name, path := e.Name(), filepath.Join(dir, e.Name())
		id, isSnapshot := parseSnapshotName(name)
		switch {
		case isSnapshot:
			_, err := readSnapshot(fsys, dir, id)
			if err = cmp.Or(err, checkBatchFile(fsys, path)); err != nil {
				damaged(path, false, err)
				bad = append(bad, id)
				continue
			}
			good = append(good, id)
		case name == quorumStateName:
		case strings.HasSuffix(name, ".tmp"):
			damaged(path, true, errors.New("a write that a crash has cut short"))
		default:
			damaged(path, false, errors.New("the file does not belong here"))
		}
	}
	checkQuorumState(fsys, dir, log, damaged)
	checkReach(dir, good, bad, log, damaged)
	return nil
}

// checkBatchFile checks what the CRC of the batch in a file does not cover. Nothing reads it, but
// it has changed.
func checkBatchFile(fsys vfs.FS, path string) error {
	data, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return err
	}
	if b := record.Batch(data); b.BaseOffset() != 0 || b.LeaderEpoch() != 0 {
		return fmt.Errorf("its batch has offset %d and epoch %d, want 0: %w", b.BaseOffset(),
			b.LeaderEpoch(), ErrDamaged)
	}
	return nil
}

func checkQuorumState(fsys vfs.FS, dir string, log CheckedLog,
	damaged func(file string, note bool, err error),
) {
	path := filepath.Join(dir, quorumStateName)
	s, found, err := loadQuorumState(fsys, dir)
	if found {
		err = checkBatchFile(fsys, path)
	}
	switch {
	case err != nil:
		damaged(path, false, err)
	case !found:
		damaged(path, false, errors.New("it is missing: nobody knows what the node voted for"))
	case s.ID == 0 || !slices.Contains(s.Voters, s.ID):
		damaged(path, false, fmt.Errorf("node %d is none of the voters %v", s.ID, s.Voters))
	case s.Term < log.LastTerm:
		damaged(path, false, fmt.Errorf("term is %d, the log is in %d", s.Term, log.LastTerm))
	case log.Last > 0 && s.Commit > log.Last:
		damaged(path, false, fmt.Errorf("entries up to %d are committed, the log ends at %d",
			s.Commit, log.Last))
	}
}

// checkReach checks that some snapshot that can be read, or none at all, and the log behind it give
// the whole state.
func checkReach(dir string, good, bad []snapshotID, log CheckedLog,
	damaged func(file string, note bool, err error),
) {
	if log.First <= 1 && log.First > 0 || len(bad)+len(good) == 0 && log.First == 0 {
		return // the log has it all, or nothing has happened yet
	}
	newest := snapshotID{}
	for _, id := range good {
		if id.index > newest.index {
			newest = id
		}
	}
	if log.First > newest.index+1 || newest.index == 0 {
		damaged(dir, false, fmt.Errorf("the log begins at entry %d, and no snapshot that can be read "+
			"covers what was before", log.First))
	}
}
