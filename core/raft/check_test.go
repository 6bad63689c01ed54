package raft

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// checkState returns the damaged files by name, with what is wrong; notes are left out.
func checkState(t *testing.T, m vfs.FS, log CheckedLog) map[string]string {
	t.Helper()
	found := make(map[string]string)
	require.NoError(t, CheckState(m, "/q", log, func(file string, note bool, err error) {
		if !note {
			found[filepath.Base(file)] = err.Error()
		}
	}))
	return found
}

func TestCheckStateFindsWhatDoesNotFit(t *testing.T) {
	m := vfs.NewMem()
	require.NoError(t, m.MkdirAll("/q", 0o755))
	save := func(s quorumState) { require.NoError(t, saveQuorumState(m, "/q", s)) }
	good := quorumState{ID: 1, Term: 3, Vote: 1, Commit: 9, Voters: []uint64{1}}
	log := CheckedLog{First: 1, Last: 10, LastTerm: 3}
	save(good)
	require.Empty(t, checkState(t, m, log))

	for want, s := range map[string]quorumState{
		"is none of the voters": {ID: 2, Term: 3, Voters: []uint64{1}},
		"the log is in 3":       {ID: 1, Term: 2, Voters: []uint64{1}},
		"the log ends at 10":    {ID: 1, Term: 3, Commit: 11, Voters: []uint64{1}},
	} {
		save(s)
		require.Contains(t, checkState(t, m, log)["quorum-state"], want)
	}
	save(good)

	// The log begins behind what snapshots cover.
	require.Contains(t, checkState(t, m, CheckedLog{First: 5, Last: 10, LastTerm: 3})["q"],
		"no snapshot that can be read")
	at := snapshotID{index: 4, term: 2}
	require.NoError(t, writeSnapshot(m, "/q", snapshot{snapshotID: at, voters: []uint64{1}}))
	require.Empty(t, checkState(t, m, CheckedLog{First: 5, Last: 10, LastTerm: 3}))
	require.NotEmpty(t, checkState(t, m, CheckedLog{First: 6, Last: 10, LastTerm: 3}))

	// One that is named as another, one that is cut, and a file of chance.
	name := "/q/" + at.fileName()
	require.NoError(t, m.Rename(name, "/q/"+snapshotID{index: 5, term: 2}.fileName()))
	require.Len(t, checkState(t, m, CheckedLog{First: 5, Last: 10, LastTerm: 3}), 2)
	require.NoError(t, vfs.WriteFileAtomic(m, "/q/notes", []byte("x"), 0o644))
	require.Contains(t, checkState(t, m, log)["notes"], "does not belong here")
	require.NoError(t, m.Remove("/q/quorum-state"))
	require.Contains(t, checkState(t, m, log)["quorum-state"], "missing")
}
