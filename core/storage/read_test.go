package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// filledLog has batches of three records of 100 bytes, several segments and, in each, index
// entries.
func filledLog(t testing.TB, fsys vfs.FS) (*Dir, *Log) {
	t.Helper()
	d := mustOpen(t, fsys, "/data")
	l := mustCreate(t, d, smallConfig())
	for i := range 30 {
		mustAppend(t, l, batchOf(t, 3, 100, t0+int64(i*10)))
	}
	require.Greater(t, len(*l.segments.Load()), 3)
	return d, l
}

// TestReadHonoursItsLimits compares every read with one over a list of the batches.
func TestReadHonoursItsLimits(t *testing.T) {
	_, l := filledLog(t, vfs.NewMem())
	list := *l.segments.Load()
	batchSize := len(batchOf(t, 3, 100, t0))
	segmentOf := func(offset int64) int {
		n := 0
		for i, s := range list {
			if s.base <= offset {
				n = i
			}
		}
		return n
	}
	for offset := range l.EndOffset() {
		for _, maxBytes := range []int{0, 1, batchSize - 1, batchSize, 2*batchSize + 1, 1 << 20} {
			for _, upTo := range []int64{offset, offset + 1, offset + 4, offset + 9, farAway} {
				for _, minOne := range []bool{false, true} {
					name := fmt.Sprintf("offset %d max %d upTo %d minOne %v", offset, maxBytes, upTo, minOne)
					first := offset - offset%3
					want := 0
					for next := first; next < l.EndOffset() && next+3 <= upTo &&
						segmentOf(next) == segmentOf(first); next += 3 {
						if (want+1)*batchSize > maxBytes && (want > 0 || !minOne) {
							break
						}
						want++
					}
					c, err := l.Read(offset, maxBytes, upTo, minOne)
					require.NoError(t, err, name)
					require.Equal(t, want*batchSize, c.Len(), name)
					if want > 0 {
						require.Equal(t, first, c.FirstOffset(), name)
						require.Equal(t, first+int64(want)*3, c.NextOffset(), name)
					} else {
						require.Equal(t, offset, c.NextOffset(), name)
					}
					c.Release()
				}
			}
		}
	}
}

func TestReadOutOfRange(t *testing.T) {
	_, l := filledLog(t, vfs.NewMem())
	require.NoError(t, l.DeleteRecordsBefore(5))
	for _, offset := range []int64{-1, 4, l.EndOffset() + 1} {
		_, err := l.Read(offset, 1, farAway, true)
		require.ErrorIs(t, err, ErrOffsetOutOfRange, "%d", offset)
	}
	c, err := l.Read(l.EndOffset(), 1, farAway, true)
	require.NoError(t, err)
	require.Zero(t, c.Len())
}

// A wrong index must cost time, never wrong records: it has no checksum.
func TestReadSurvivesWrongIndexes(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		fsys := vfs.NewMem()
		d, l := filledLog(t, fsys)
		want := readAll(t, l, 700)
		for _, s := range *l.segments.Load() {
			if !s.state().sealed {
				continue
			}
			for _, f := range []vfs.File{s.mu.offsets.file, s.mu.times.file} {
				size, err := f.Size()
				require.NoError(t, err)
				junk := []byte{byte(rnd.Uint32())}
				_, err = f.WriteAt(junk, rnd.Int64N(max(size, 1)))
				require.NoError(t, err)
			}
		}
		require.Equal(t, want, readAll(t, l, 700), "seed %d", seed)
		for i := range 30 {
			at, ok, err := l.OffsetForTimestamp(t0+int64(i*10), farAway)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, int64(i*3), at.Offset, "seed %d time %d", seed, i)
		}
		// A clean restart finds what is wrong with the last entries and reads those segments anew.
		require.NoError(t, d.Close())
		d = mustOpen(t, fsys, "/data")
		l, _ = d.Log(tp0)
		require.NoError(t, l.Err())
		require.Equal(t, want, readAll(t, l, 700), "seed %d", seed)
	}
}

func TestChunkOutlivesItsSegmentAndItsLog(t *testing.T) {
	_, l := filledLog(t, vfs.NewMem())
	c, err := l.Read(0, 1<<20, farAway, true)
	require.NoError(t, err)
	want, err := c.AppendTo(nil)
	require.NoError(t, err)
	require.NoError(t, l.DeleteRecordsBefore(60))
	got, err := c.AppendTo(nil)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, l.owner.(*Dir).Delete(tp0))
	got, err = c.AppendTo(got)
	require.NoError(t, err)
	require.Len(t, got, 2*len(want))
	file, pos := c.File()
	require.NotNil(t, file)
	require.Zero(t, pos)
	c.Release()
	require.Zero(t, c.segment)
	_, err = file.ReadAt(make([]byte, 1), 0)
	require.Error(t, err, "the last release closes the file")
	_, err = l.Read(60, 1, farAway, true)
	require.ErrorIs(t, err, ErrClosed)
	_, err = l.Append(batchOf(t, 1, 1, t0), AppendOptions{})
	require.ErrorIs(t, err, ErrClosed)
}

// TestTimeLookupsAgreeWithAScan compares with a search over all records, timestamps out of order
// included.
func TestTimeLookupsAgreeWithAScan(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	d := mustOpen(t, vfs.NewMem(), "/data")
	l := mustCreate(t, d, smallConfig())
	var all []record.Record
	for range 60 {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Codec: record.Codec(rnd.IntN(5))})
		for range rnd.IntN(4) + 1 {
			r := record.Record{Offset: int64(len(all)), Timestamp: t0 + rnd.Int64N(300),
				Value: make([]byte, rnd.IntN(60))}
			if rnd.IntN(20) == 0 {
				r.Timestamp = record.NoTimestamp
			}
			b.Append(r)
			all = append(all, r)
		}
		batch, err := b.Build()
		require.NoError(t, err)
		mustAppend(t, l, batch)
	}
	require.NoError(t, l.DeleteRecordsBefore(9))
	for range 2000 {
		ts, upTo := t0+rnd.Int64N(310)-5, rnd.Int64N(l.EndOffset()+2)
		want := int64(-1)
		for _, r := range all {
			if r.Timestamp >= ts && r.Offset >= 9 && r.Offset < upTo {
				want = r.Offset
				break
			}
		}
		got, ok, err := l.OffsetForTimestamp(ts, upTo)
		require.NoError(t, err)
		require.Equal(t, want >= 0, ok, "time %d upTo %d", ts, upTo)
		if ok {
			require.Equal(t, want, got.Offset, "time %d upTo %d", ts, upTo)
			require.Equal(t, all[want].Timestamp, got.Timestamp)
		}
	}
	best := all[9]
	for _, r := range all[9:] {
		if r.Timestamp > best.Timestamp {
			best = r
		}
	}
	got, ok, err := l.MaxTimestamp(farAway)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, best.Offset, got.Offset)
	require.Equal(t, best.Timestamp, got.Timestamp)
}

func TestTimeLookupsOfAnEmptyLog(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	l := mustCreate(t, d, smallConfig())
	_, ok, err := l.OffsetForTimestamp(0, farAway)
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = l.MaxTimestamp(farAway)
	require.NoError(t, err)
	require.False(t, ok)
}
