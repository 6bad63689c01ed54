package vfs_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
)

// outcomes returns what some observation gives on the clones of many seeds.
func outcomes(m *vfs.Mem, look func(*vfs.Mem) string) map[string]int {
	seen := make(map[string]int)
	for seed := range uint64(400) {
		seen[look(m.CrashClone(seed))]++
	}
	return seen
}

func keys(m map[string]int) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

// content returns a file's content, "-" if it is not there.
func content(name string) func(*vfs.Mem) string {
	return func(m *vfs.Mem) string {
		b, err := vfs.ReadFile(m, name)
		if err != nil {
			return "-"
		}
		return string(b)
	}
}

// open returns a file of a fresh file system, whose name is durable.
func openDurable(t *testing.T) (*vfs.Mem, vfs.File) {
	t.Helper()
	m := vfs.NewMem()
	f, err := m.OpenFile("/f", vfs.ReadWrite|vfs.Create, 0o644)
	require.NoError(t, err)
	require.NoError(t, m.SyncDir("/"))
	return m, f
}

func put(t *testing.T, f vfs.File, s string, off int64) {
	t.Helper()
	_, err := f.WriteAt([]byte(s), off)
	require.NoError(t, err)
}

func TestCrashKeepsSyncedBytesAndTearsTheRest(t *testing.T) {
	m, f := openDurable(t)
	put(t, f, "synced", 0)
	require.NoError(t, f.Sync())
	put(t, f, "tail", 6)
	seen := outcomes(m, content("/f"))
	whole := []string{"synced", "syncedt", "syncedta", "syncedtai", "syncedtail"}
	require.Subset(t, keys(seen), whole)
	for state := range seen {
		if !slices.Contains(whole, state) { // the size is there, the block is not
			require.Equal(t, "synced", strings.TrimRight(state, "\x00"))
			require.LessOrEqual(t, len(state), 10)
		}
	}
	require.Equal(t, "syncedtail", read(t, m, "/f")) // the original goes on
}

func TestCrashMayKeepALaterWriteWithoutAnEarlierOne(t *testing.T) {
	m, f := openDurable(t)
	put(t, f, "aa", 0)
	put(t, f, "bb", 2)
	seen := keys(outcomes(m, content("/f")))
	require.Contains(t, seen, "")
	require.Contains(t, seen, "aa")
	require.Contains(t, seen, "aabb")
	require.Contains(t, seen, "\x00\x00bb")
}

// The blocks of one write may reach the disk in any order, each whole.
func TestCrashReordersTheBlocksOfAWrite(t *testing.T) {
	m, f := openDurable(t)
	put(t, f, strings.Repeat("o", 2048), 0)
	require.NoError(t, f.Sync())
	put(t, f, strings.Repeat("n", 2048), 0)
	seen := outcomes(m, func(m *vfs.Mem) string {
		text := content("/f")(m)
		var blocks strings.Builder
		for at := 0; at < len(text); at += 512 {
			block := text[at : at+512]
			if strings.Trim(block, block[:1]) != "" {
				return "torn"
			}
			blocks.WriteString(block[:1])
		}
		return blocks.String()
	})
	for _, blocks := range []string{"oooo", "nnnn", "onoo", "ooon", "nono", "nnno"} {
		require.Contains(t, keys(seen), blocks)
	}
}

// Clone is what kill -9 leaves: everything, and what was not synced can still be lost.
func TestCloneKeepsEverything(t *testing.T) {
	m, f := openDurable(t)
	put(t, f, "synced", 0)
	require.NoError(t, f.Sync())
	put(t, f, "tail", 6)
	write(t, m, "/g", "new")
	require.NoError(t, m.Rename("/g", "/h"))
	c := m.Clone()
	require.Equal(t, "syncedtail", content("/f")(c))
	require.Equal(t, "new", content("/h")(c))
	require.Equal(t, outcomes(m, content("/f")), outcomes(c, content("/f")))
	require.Equal(t, outcomes(m, content("/h")), outcomes(c, content("/h")))
	put(t, f, "TAIL", 6)
	require.Equal(t, "syncedtail", content("/f")(c))
}

func TestCrashOfAnOverwriteShowsOldOrNew(t *testing.T) {
	m, f := openDurable(t)
	put(t, f, "old!", 0)
	require.NoError(t, f.Datasync())
	put(t, f, "new", 0)
	require.ElementsMatch(t, []string{"old!", "nld!", "ned!", "new!"},
		keys(outcomes(m, content("/f"))))
}

func TestCrashMayBringBackATruncatedTail(t *testing.T) {
	m, f := openDurable(t)
	put(t, f, "0123456789", 0)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Truncate(4))
	require.ElementsMatch(t, []string{"0123", "0123456789"}, keys(outcomes(m, content("/f"))))
	require.NoError(t, f.Sync())
	require.Equal(t, []string{"0123"}, keys(outcomes(m, content("/f"))))
}

func TestCrashLosesNamesWithoutSyncDir(t *testing.T) {
	m := vfs.NewMem()
	f, err := m.OpenFile("/f", vfs.WriteOnly|vfs.Create, 0o644)
	require.NoError(t, err)
	put(t, f, "x", 0)
	require.NoError(t, f.Sync())
	require.ElementsMatch(t, []string{"-", "x"}, keys(outcomes(m, content("/f"))))
	require.NoError(t, m.SyncDir("/"))
	require.Equal(t, []string{"x"}, keys(outcomes(m, content("/f"))))

	require.NoError(t, m.Remove("/f"))
	require.ElementsMatch(t, []string{"-", "x"}, keys(outcomes(m, content("/f"))))

	require.NoError(t, m.MkdirAll("/a/b", 0o755))
	write(t, m, "/a/b/g", "")
	require.NoError(t, m.SyncDir("/a/b"))
	require.NoError(t, m.SyncDir("/a")) // but not the root, which names a
	require.ElementsMatch(t, []string{"-", ""}, keys(outcomes(m, content("/a/b/g"))))
}

func TestRenameIsAtomicInACrash(t *testing.T) {
	m := vfs.NewMem()
	require.NoError(t, vfs.WriteFileAtomic(m, "/f", []byte("old"), 0o644))
	write(t, m, "/f.tmp", "new")
	f, err := m.OpenFile("/f.tmp", vfs.ReadWrite, 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("/"))
	require.NoError(t, m.Rename("/f.tmp", "/f"))
	look := func(m *vfs.Mem) string { return content("/f")(m) + " " + content("/f.tmp")(m) }
	require.ElementsMatch(t, []string{"old new", "new -"}, keys(outcomes(m, look)))
	require.NoError(t, m.SyncDir("/"))
	require.Equal(t, []string{"new -"}, keys(outcomes(m, look)))
}

// At whatever operation the power goes, WriteFileAtomic leaves the old or the new content.
func TestWriteFileAtomicSurvivesPowerCutAnywhere(t *testing.T) {
	m := vfs.NewMem()
	require.NoError(t, vfs.WriteFileAtomic(m, "/f", []byte("old"), 0o644))
	cuts := 0
	traced := vfs.NewTrace(m, func(op string) {
		cuts++
		for got := range outcomes(m, content("/f")) {
			require.Contains(t, []string{"old", "new"}, got, "before %s", op)
		}
	})
	require.NoError(t, vfs.WriteFileAtomic(traced, "/f", []byte("new"), 0o644))
	require.Equal(t, []string{"new"}, keys(outcomes(m, content("/f"))))
	require.Equal(t, 6, cuts)
}

func TestCrashCloneIsReproducibleAndApart(t *testing.T) {
	m := vfs.NewMem()
	for i := range 50 {
		write(t, m, fmt.Sprintf("/f%02d", i), strings.Repeat("x", i))
	}
	dump := func(m *vfs.Mem) string {
		var out strings.Builder
		for i := range 50 {
			fmt.Fprintln(&out, content(fmt.Sprintf("/f%02d", i))(m))
		}
		return out.String()
	}
	require.Equal(t, dump(m.CrashClone(7)), dump(m.CrashClone(7)))
	require.NotEqual(t, dump(m.CrashClone(7)), dump(m.CrashClone(8)))

	require.NoError(t, m.SyncDir("/"))
	clone := m.CrashClone(1)
	write(t, clone, "/f10", "changed")
	require.NotEqual(t, "changed", read(t, m, "/f10"))
	lock, err := m.Lock("/lock")
	require.NoError(t, err)
	_, err = m.CrashClone(1).Lock("/lock")
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

// A power cut is one moment for all files: what was written after another file was synced is never
// there without it.
func TestCrashCloneIsOneMoment(t *testing.T) {
	m := vfs.NewMem()
	create := func(name string) vfs.File {
		f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		require.NoError(t, err)
		return f
	}
	first, second := create("/first"), create("/second")
	require.NoError(t, m.SyncDir("/"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range int64(5000) {
			for _, f := range []vfs.File{first, second} {
				_, _ = f.WriteAt([]byte("x"), n)
				_ = f.Datasync()
			}
		}
	}()
	for seed := uint64(1); ; seed++ {
		c := m.CrashClone(seed)
		require.GreaterOrEqual(t, len(content("/first")(c)), len(content("/second")(c)))
		select {
		case <-done:
			return
		default:
		}
	}
}
