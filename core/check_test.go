package core_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/vfs"
)

const checkedDir = "/millstream"

// fill gives a broker topics, records of all codecs and a group's offsets.
func fill(t *testing.T, c *coretest.Cluster) {
	t.Helper()
	ctx := testContext(t)
	admin := kadm.NewClient(c.Client())
	_, err := admin.CreateTopic(ctx, 2, 1, nil, "t")
	require.NoError(t, err)
	for i, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.ZstdCompression(), kgo.Lz4Compression(),
		kgo.SnappyCompression(),
	} {
		cl := c.Client(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic("t"))
		for j := range 20 {
			r := &kgo.Record{Key: fmt.Append(nil, j), Value: []byte(strings.Repeat("x", 300*(5-i)))}
			require.NoError(t, cl.ProduceSync(ctx, r).FirstErr())
		}
		cl.Close()
	}
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 3, 0)
	require.NoError(t, admin.CommitAllOffsets(ctx, "g", offsets))
}

func checkDir(t testing.TB, fsys vfs.FS) (core.CheckSummary, []core.CheckFinding) {
	t.Helper()
	var found []core.CheckFinding
	s, err := core.Check(t.Context(), core.CheckOptions{
		FS: fsys, DataDir: checkedDir,
		Report: func(f core.CheckFinding) { found = append(found, f) },
	})
	require.NoError(t, err)
	return s, found
}

// tree returns the content of all files below a directory.
func tree(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.IsDir() {
			data, err := vfs.ReadFile(fsys, path)
			require.NoError(t, err)
			all[path] = string(data)
			continue
		}
		for name, data := range tree(t, fsys, path) {
			all[name] = data
		}
	}
	return all
}

// A running broker's directory is refused, one that was closed in order is sound, and it is only
// read.
func TestCheckOfSoundDirectory(t *testing.T) {
	disk := vfs.NewMem()
	c := coretest.Start(t, coretest.Options{FS: disk})
	fill(t, c)
	_, err := core.Check(t.Context(), core.CheckOptions{
		FS: disk, DataDir: checkedDir, Report: func(core.CheckFinding) {},
	})
	require.ErrorIs(t, err, vfs.ErrLocked)
	c.Stop()
	before := tree(t, disk, checkedDir)
	s, found := checkDir(t, disk)
	require.Empty(t, found)
	require.Equal(t, before, tree(t, disk, checkedDir))
	require.GreaterOrEqual(t, s.Records, int64(101), "100 records, an offset, and the metadata")
	c.Start() // the lock is free again
}

func TestCheckWantsADataDirectory(t *testing.T) {
	_, err := core.Check(t.Context(), core.CheckOptions{
		DataDir: t.TempDir(), Report: func(core.CheckFinding) {},
	})
	require.ErrorIs(t, err, core.ErrNoData)
}

// Each file of a broker's directory, changed at many places, is found to be wrong.
func TestCheckFindsChangedBytes(t *testing.T) {
	disk := vfs.NewMem()
	c := coretest.Start(t, coretest.Options{
		FS: disk, Config: map[string]string{"offsets.topic.num.partitions": "1"},
	})
	fill(t, c)
	c.Stop()
	kinds := make(map[string]bool)
	for name, data := range tree(t, disk, checkedDir) {
		if strings.HasSuffix(name, ".lock") {
			continue // says who has it, nobody
		}
		f, err := disk.OpenFile(name, vfs.ReadWrite, 0)
		require.NoError(t, err)
		for i := 0; i < len(data); i += 1 + len(data)/60 {
			_, err := f.WriteAt([]byte{data[i] ^ 0x80}, int64(i))
			require.NoError(t, err)
			s, found := checkDir(t, disk)
			require.NotZero(t, s.Damages, "%s at %d", name, i)
			require.NotEmpty(t, found[0].Do)
			_, err = f.WriteAt([]byte{data[i]}, int64(i))
			require.NoError(t, err)
			kinds[filepath.Ext(name)+" "+strings.Trim(filepath.Base(name), "0123456789")] = true
		}
		require.NoError(t, f.Close())
	}
	for _, kind := range []string{
		".log .log", ".index .index", ".timeindex .timeindex", ".snapshot .snapshot",
		".metadata partition.metadata", " leader-epoch-checkpoint", ".properties meta.properties",
		" quorum-state", ".kafka_cleanshutdown .kafka_cleanshutdown",
	} {
		require.True(t, kinds[kind], "%q was there: %v", kind, kinds)
	}
}

// Whatever a power cut leaves is no damage: the next start puts it right.
func TestCheckAfterPowerCut(t *testing.T) {
	disk := vfs.NewMem()
	c := coretest.Start(t, coretest.Options{FS: disk})
	fill(t, c)
	cl := c.Client(kgo.DefaultProduceTopic("t"))
	for i := range 100 {
		cl.Produce(testContext(t), &kgo.Record{Value: fmt.Append(nil, i)}, nil)
		if i%10 != 9 {
			continue
		}
		s, found := checkDir(t, disk.CrashClone(uint64(i)))
		require.Zero(t, s.Damages, "%+v", found)
	}
}
