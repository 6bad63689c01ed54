package fsck

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// testdata/kafka-4.4.0-transactions is the data directory of an Apache Kafka 4.4.0 after a clean
// shutdown, most partitions left out: offsets committed in transactions, among them aborted ones.
// frozenDir is that of the storage package: six segments, idempotent, plain and compressed.
const (
	transactionsDir = "testdata/kafka-4.4.0-transactions"
	frozenDir       = "../testdata/kafka-4.4.0"
)

// load copies a directory of the disk into memory, without the partitions that skip says.
func load(t testing.TB, from string, skip ...string) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	require.NoError(t, m.MkdirAll("/data", 0o755))
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || slices.ContainsFunc(skip, func(s string) bool {
			return strings.HasPrefix(rel, s)
		}) {
			return err
		}
		target := filepath.Join("/data", rel)
		if d.IsDir() {
			return m.MkdirAll(target, 0o755)
		}
		data, err := vfs.ReadFile(vfs.OS(), path)
		if err != nil {
			return err
		}
		write(t, m, target, without(data, d.Name(), skip))
		return nil
	}))
	return m
}

// without leaves partitions out of a checkpoint file.
func without(data []byte, name string, skip []string) []byte {
	if !slices.Contains(checkpointFiles, name) || len(data) == 0 {
		return data
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")[2:]
	lines = slices.DeleteFunc(lines, func(line string) bool {
		f := strings.Fields(line)
		return slices.Contains(skip, f[0]+"-"+f[1])
	})
	head := fmt.Sprintf("0\n%d\n", len(lines))
	return []byte(strings.TrimSuffix(head+strings.Join(lines, "\n"), "\n") + "\n")
}

func write(t testing.TB, m *vfs.Mem, name string, data []byte) {
	t.Helper()
	f, err := m.OpenFile(name, vfs.ReadWrite|vfs.Create|vfs.Truncate, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func run(t testing.TB, m vfs.FS) (Summary, []Finding) {
	t.Helper()
	var found []Finding
	s, err := Check(t.Context(), Options{
		FS: m, Path: "/data", Report: func(f Finding) { found = append(found, f) },
	})
	require.NoError(t, err)
	return s, found
}

func TestDirectoriesOfKafkaAreSound(t *testing.T) {
	s, found := run(t, load(t, transactionsDir))
	require.Empty(t, found)
	require.Equal(t, 6, s.Partitions)
	// Counted with DumpLogSegments: 39, 29, 13, 15 and 21 batches of one record each.
	require.EqualValues(t, 39+29+13+15+21, s.Records)

	s, found = run(t, load(t, frozenDir))
	require.Empty(t, found)
	require.EqualValues(t, 790, s.Records)
	require.Equal(t, 5, s.Segments)
}

// files lists all files below /data.
func files(t testing.TB, m vfs.FS, dir string) []string {
	t.Helper()
	entries, err := m.ReadDir(dir)
	require.NoError(t, err)
	var list []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			list = append(list, files(t, m, path)...)
		} else {
			list = append(list, path)
		}
	}
	return list
}

// unseen are changes that leave a file as valid as before.
var unseen = regexp.MustCompile(
	`^/data/meta.properties|^/data/(replication|log-start|cleaner)-offset-checkpoint` +
		`|/wire-0/(partition.metadata|leader-epoch-checkpoint)$` +
		`|/__transaction_state-0/partition.metadata$` +
		`|/.kafka_cleanshutdown$`)

// TestEveryChangedByteIsFound changes each byte of a directory in two ways: so that no text is
// valid any more, and by one bit, which makes digits of digits and letters of letters.
func TestEveryChangedByteIsFound(t *testing.T) {
	m := load(t, transactionsDir, "__consumer_offsets-0", "__consumer_offsets-1")
	write(t, m, "/data/meta.properties", // without comments, which may say anything
		[]byte("version=1\nnode.id=1\ncluster.id=tIdD75R09zYONGYNtE06DQ\n"+
			"directory.id=ZJcuwlcYQAiOmuj26BBhsw\n"))
	changed := 0
	for _, name := range files(t, m, "/data") {
		data, err := vfs.ReadFile(m, name)
		require.NoError(t, err)
		f, err := m.OpenFile(name, vfs.ReadWrite, 0)
		require.NoError(t, err)
		for i := range data {
			for _, mask := range []byte{0x80, 0x01} {
				if mask == 1 && unseen.MatchString(name) {
					continue
				}
				changed++
				_, err := f.WriteAt([]byte{data[i] ^ mask}, int64(i))
				require.NoError(t, err)
				expectAt(t, m, name, int64(i), mask)
			}
			_, err := f.WriteAt(data[i:i+1], int64(i))
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
	}
	_, found := run(t, m)
	require.Empty(t, found)
	require.Greater(t, changed, 10000)
}

// expectAt expects a finding for a changed byte: in its file, or, if the file is what the others
// are held against, in one of them.
func expectAt(t *testing.T, m *vfs.Mem, name string, at int64, mask byte) {
	t.Helper()
	_, found := run(t, m)
	require.NotEmpty(t, found, "%s at %d mask %x", name, at, mask)
	in := slices.ContainsFunc(found, func(f Finding) bool {
		if f.File != name {
			return false
		}
		require.False(t, f.Note && name != "/data/replication-offset-checkpoint" &&
			name != "/data/log-start-offset-checkpoint" && name != "/data/cleaner-offset-checkpoint",
			"%s at %d mask %x: %+v", name, at, mask, f)
		// A binary file is wrong in the batch or the entry of the byte.
		return f.Position <= at || !strings.Contains(filepath.Base(name), "00000000")
	})
	switch {
	case in:
	case strings.HasSuffix(name, fileEpochs):
		in = strings.HasSuffix(found[0].File, suffixLog)
	case strings.HasSuffix(name, filePartitionMetadata): // the next partition is not of that topic
		in = strings.HasSuffix(found[0].File, filePartitionMetadata)
	}
	require.True(t, in, "%s at %d mask %x: %+v", name, at, mask, found)
}

func TestFilesThatAreMissingOrTooMany(t *testing.T) {
	for name, want := range map[string]string{
		"/data/meta.properties":                                     "belongs to nobody",
		"/data/__consumer_offsets-0/partition.metadata":             "which topic's records",
		"/data/__consumer_offsets-0/leader-epoch-checkpoint":        "is missing",
		"/data/__consumer_offsets-0/00000000000000000000.index":     "is missing",
		"/data/__consumer_offsets-0/00000000000000000000.timeindex": "is missing",
		"/data/__consumer_offsets-0/00000000000000000000.txnindex":  "has no entry for the abort",
	} {
		m := load(t, transactionsDir)
		require.NoError(t, m.Remove(name))
		s, found := run(t, m)
		require.Equal(t, 1, s.Damages, "%s: %+v", name, found)
		require.Equal(t, name, found[0].File)
		require.Contains(t, found[0].What, want)
		require.NotEmpty(t, found[0].Do)
		require.Equal(t, strings.HasSuffix(name, ".txnindex"),
			strings.Contains(found[0].Do, "one byte"))
	}
	for name, note := range map[string]bool{
		"/data/notes.txt":                               false,
		"/data/backup/x":                                false,
		"/data/.kafka_cleanshutdown.tmp":                true,
		"/data/old-0.0123456789abcdef-delete/x":         true,
		"/data/old-0.0123456789abcdef-stray/x":          true,
		"/data/wire-0/notes.txt":                        false,
		"/data/wire-0/sub/x":                            false,
		"/data/wire-0/00000000000000000009.index":       false,
		"/data/wire-0/00000000000000000000.log.deleted": true,
		"/data/wire-0/00000000000000000000.log.cleaned": true,
		"/data/wire-0/leader-epoch-checkpoint.tmp":      true,
		"/data/wire-0/00000000000000000042.snapshot":    false,
	} {
		m := load(t, transactionsDir)
		require.NoError(t, m.MkdirAll(filepath.Dir(name), 0o755))
		write(t, m, name, []byte{})
		_, found := run(t, m)
		require.NotEmpty(t, found, name)
		for _, f := range found {
			require.Equal(t, note, f.Note, "%s: %+v", name, f)
			require.True(t, strings.HasPrefix(name, f.File), "%s: %+v", name, f)
			require.NotEmpty(t, f.Do)
		}
	}
}

// Segments that overlap or leave a hole, and what becomes of it below the cleaner's checkpoint.
func TestHolesBetweenSegments(t *testing.T) {
	m := load(t, frozenDir)
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixSnapshot} {
		require.NoError(t, m.Remove("/data/frozen-0/00000000000000000296"+suffix))
	}
	_, found := run(t, m)
	require.NotEmpty(t, found)
	require.Equal(t, "/data/frozen-0/00000000000000000456.log", found[0].File)
	require.Equal(t, "offsets 296 to 455 are missing before this", found[0].What)

	write(t, m, "/data/"+fileCleaned, []byte("0\n1\nfrozen 0 600\n"))
	s, found := run(t, m)
	require.Zero(t, s.Damages, "%+v", found)
}

// A directory after a crash: what was never synced may be torn, what was may not.
func TestTornEndAfterCrash(t *testing.T) {
	m := load(t, frozenDir)
	last := "/data/frozen-0/00000000000000000698.log"
	data, err := vfs.ReadFile(m, last)
	require.NoError(t, err)
	write(t, m, last, data[:len(data)-10])
	s, found := run(t, m)
	require.NotZero(t, s.Damages, "closed in order: %+v", found)
	require.NoError(t, m.Remove("/data/"+fileCleanShutdown))
	s, found = run(t, m)
	require.NotZero(t, s.Damages, "below the recovery point: %+v", found)

	write(t, m, "/data/"+fileRecoveryPoints, []byte("0\n1\nfrozen 0 700\n"))
	write(t, m, "/data/"+fileHighWatermarks, []byte("0\n1\nfrozen 0 700\n"))
	s, found = run(t, m)
	require.Zero(t, s.Damages, "%+v", found)
	require.GreaterOrEqual(t, s.Notes, 2)
	for _, f := range found {
		require.Equal(t, doNothing, f.Do)
	}
}

// A start after a crash rolls a segment and may be killed before its index of aborted transactions
// is in the file: the next start reads a segment that ends at the recovery point again.
func TestIndexOfTheSegmentBeforeTheRecoveryPointAfterACrash(t *testing.T) {
	m := load(t, transactionsDir)
	const dir = "/data/__consumer_offsets-0/"
	points, err := vfs.ReadFile(m, "/data/"+fileRecoveryPoints)
	require.NoError(t, err)
	end := regexp.MustCompile(`(?m)^__consumer_offsets 0 (\d+)$`).FindSubmatch(points)
	require.NotNil(t, end)
	base := fmt.Sprintf("%020s", end[1])
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex} {
		write(t, m, dir+base+suffix, []byte{})
	}
	write(t, m, dir+fmt.Sprintf("%020d", 0)+suffixTxnIndex, []byte{})
	s, found := run(t, m)
	require.NotZero(t, s.Damages, "closed in order: %+v", found)
	require.NoError(t, m.Remove("/data/"+fileCleanShutdown))
	s, found = run(t, m)
	require.Zero(t, s.Damages, "%+v", found)
	require.NotZero(t, s.Notes)
}

// A length that lies takes no memory, and bytes of chance end the check like any others.
func FuzzCheckSegment(f *testing.F) {
	data, err := vfs.ReadFile(vfs.OS(),
		transactionsDir+"/__consumer_offsets-2/00000000000000000000.log")
	require.NoError(f, err)
	f.Add(data, []byte{1, 2, 3})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 2}, data[:100])
	f.Fuzz(func(t *testing.T, log, index []byte) {
		m := vfs.NewMem()
		require.NoError(t, m.MkdirAll("/data/t-0", 0o755))
		for i, suffix := range []string{
			suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex, suffixSnapshot,
		} {
			content := index
			if i == 0 {
				content = log
			}
			write(t, m, fmt.Sprintf("/data/t-0/%020d%s", 0, suffix), content)
		}
		for _, name := range append(checkpointFiles, fileMetaProperties, fileCleanShutdown,
			"t-0/"+fileEpochs, "t-0/"+filePartitionMetadata) {
			write(t, m, "/data/"+name, index)
		}
		run(t, m)
	})
}
