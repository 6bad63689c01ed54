package state

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// killPath is the environment variable that makes the test binary write a state file for ever.
const killPath = "MILLSTREAM_TEST_STATE_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(killPath); path != "" {
		writeForEver(path)
	}
	os.Exit(m.Run())
}

// writeForEver commits and flushes without end: commit n sets all of 200 rows to n. It announces
// each commit that is in the file.
func writeForEver(path string) {
	db, err := Open(Options{Path: path, FlushInterval: 1})
	for n := db.Meta().Next + 1; err == nil; n++ {
		value := binary.BigEndian.AppendUint64(make([]byte, 0, 400), uint64(n))
		for i := range 200 {
			if err = db.Store("s").Put(fmt.Appendf(nil, "%d", i), value[:400]); err != nil {
				break
			}
		}
		if err == nil {
			err = db.Commit(time.Unix(n, 0), Meta{Next: n, Commit: []byte("c")})
		}
		if err == nil {
			err = db.Flush() // the first commit only starts the interval
		}
		if err == nil {
			_, err = fmt.Fprintln(os.Stdout, n)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestKilledWhileFlushing kills a process that does nothing but flush, again and again. The file is
// always one commit, whole, and not older than the last one the process has announced.
func TestKilledWhileFlushing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	rnd := rand.New(rand.NewPCG(4, 4))
	announced := int64(0)
	for range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killPath+"="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		before := announced
		for wait := 1 + rnd.IntN(60); wait > 0 && lines.Scan(); wait-- {
			announced, err = strconv.ParseInt(lines.Text(), 10, 64)
			require.NoError(t, err)
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() { // what it announced before the kill reached it
			if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				announced = max(announced, n)
			}
		}
		require.Error(t, cmd.Wait(), "killed")
		require.Greater(t, announced, before, "it was at work")
		requireWhole(t, path, announced)
	}
}

// requireWhole checks that the file holds exactly one commit, at or after the one given.
func requireWhole(t *testing.T, path string, announced int64) {
	t.Helper()
	db, err := Open(Options{Path: path})
	require.NoError(t, err)
	_, err = os.Stat(path + ".torn")
	require.ErrorIs(t, err, os.ErrNotExist, "a kill is no power loss")
	n := db.Meta().Next
	require.GreaterOrEqual(t, n, announced)
	require.LessOrEqual(t, n, announced+1, "at most one flush was not announced yet")
	rows := 0
	require.NoError(t, db.Store("s").Scan(nil, nil, func(k, v []byte) error {
		require.EqualValues(t, n, binary.BigEndian.Uint64(v), "row %s", k)
		rows++
		return nil
	}))
	require.Equal(t, 200, rows)
	require.NoError(t, db.Kill())
}
