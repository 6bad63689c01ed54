package record_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/millstream-io/millstream/core/record"
	"github.com/stretchr/testify/require"
)

var codecs = []record.Codec{record.None, record.Gzip, record.Snappy, record.Lz4, record.Zstd}

// texts are inputs of every shape: empty, short, longer than a snappy chunk, not compressible.
func texts() [][]byte {
	noise := make([]byte, 300_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	return [][]byte{{}, []byte("x"), bytes.Repeat([]byte("millstream "), 40_000), noise}
}

func TestCodecsRoundTripAndAppend(t *testing.T) {
	for _, c := range codecs {
		for _, text := range texts() {
			packed, err := c.Compress([]byte("ab"), text)
			require.NoError(t, err)
			require.Equal(t, "ab", string(packed[:2]))
			back, err := c.Decompress([]byte("cd"), packed[2:], len(text))
			require.NoError(t, err, "%v of %d bytes", c, len(text))
			require.True(t, bytes.Equal(append([]byte("cd"), text...), back))
			if len(text) > 0 {
				_, err = c.Decompress(nil, packed[2:], len(text)-1)
				require.ErrorIs(t, err, record.ErrTooLarge, "%v of %d bytes", c, len(text))
			}
		}
	}
}

func TestCodecsAreSafeForConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c := codecs[i%len(codecs)]
			text := bytes.Repeat([]byte{byte(i), byte(i >> 4), 'x'}, 10_000+i)
			for range 20 {
				packed, err := c.Compress(nil, text)
				if err != nil {
					t.Error(err)
				}
				back, err := c.Decompress(nil, packed, len(text))
				if err != nil || !bytes.Equal(text, back) {
					t.Errorf("%v: %v", c, err)
				}
			}
		})
	}
	wg.Wait()
}

// allocated returns the bytes fn allocates.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A few kilobytes that unpack to hundreds of megabytes are refused at the limit, and never held.
func TestDecompressionStopsAtTheLimit(t *testing.T) {
	zeros := make([]byte, 64<<20)
	const limit = 1 << 20
	for _, c := range codecs[1:] {
		bomb, err := c.Compress(nil, zeros)
		require.NoError(t, err)
		if c == record.Snappy { // one block instead of chunks
			bomb = s2.EncodeSnappy(nil, zeros)
		}
		spent := allocated(func() {
			_, err = c.Decompress(nil, bomb, limit)
		})
		require.ErrorIs(t, err, record.ErrTooLarge, c)
		require.Less(t, spent, uint64(24<<20), c)
	}
}

// A length that is only claimed must not be allocated.
func TestClaimedSizesAreNotAllocated(t *testing.T) {
	claims := map[record.Codec][]byte{
		// A snappy block that says it holds 1 GiB and ends.
		record.Snappy: binary.AppendUvarint(nil, 1<<30),
		// A zstd frame: magic, single segment with an 8-byte content size of 1 GiB, then nothing.
		record.Zstd: {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0x40, 0, 0, 0, 0},
	}
	xerial := append([]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1},
		0x7f, 0xff, 0xff, 0xff, 1)
	for c, claim := range claims {
		var err error
		spent := allocated(func() { _, err = c.Decompress(nil, claim, 1<<30) })
		require.ErrorIs(t, err, record.ErrCorrupt, c)
		require.Less(t, spent, uint64(8<<20), c)
	}
	_, err := record.Snappy.Decompress(nil, xerial, 1<<30)
	require.ErrorIs(t, err, record.ErrCorrupt)
}

func TestSnappyReadsRawBlocksAndFramedOnes(t *testing.T) {
	text := bytes.Repeat([]byte("raw "), 1000)
	got, err := record.Snappy.Decompress(nil, s2.EncodeSnappy(nil, text), len(text))
	require.NoError(t, err)
	require.True(t, bytes.Equal(text, got))

	framed, err := record.Snappy.Compress(nil, text)
	require.NoError(t, err)
	// What snappy-java writes: magic, version 1, compatible with 1.
	require.Equal(t, unhex(t, "82534e41505059 00 00000001 00000001"), framed[:16])
}

func TestZstdWindowsOfJavaProducers(t *testing.T) {
	// Level 22 of the reference encoder uses windows of 128 MiB.
	text := bytes.Repeat([]byte("window "), 1000)
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<27), zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	var buf bytes.Buffer
	enc.Reset(&buf)
	for range 3 { // streamed, so that the frame states its window instead of its size
		_, err = enc.Write(text)
		require.NoError(t, err)
		require.NoError(t, enc.Flush())
	}
	require.NoError(t, enc.Close())
	var got []byte
	spent := allocated(func() { got, err = record.Zstd.Decompress(nil, buf.Bytes(), 1<<20) })
	require.NoError(t, err)
	require.Len(t, got, 3*len(text))
	require.Less(t, spent, uint64(8<<20))
	_, err = record.Zstd.Decompress(nil, buf.Bytes(), len(got)-1)
	require.ErrorIs(t, err, record.ErrTooLarge)
}

// A frame made at once says its size instead of a window, which may be any size below the limit.
func TestZstdFramesLargerThanTheStreamedWindow(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	packed := enc.EncodeAll(text, nil)
	got, err := record.Zstd.Decompress([]byte("a"), packed, len(text))
	require.NoError(t, err)
	require.True(t, bytes.Equal(append([]byte("a"), text...), got))
	_, err = record.Zstd.Decompress(nil, packed, len(text)-1)
	require.ErrorIs(t, err, record.ErrTooLarge)
}

func TestDamagedCompressedBytesAreErrors(t *testing.T) {
	text := bytes.Repeat([]byte("millstream "), 4000)
	for _, c := range codecs[1:] {
		packed, err := c.Compress(nil, text)
		require.NoError(t, err)
		for _, damaged := range [][]byte{
			packed[:len(packed)/2], packed[:1], {0, 1, 2, 3}, bytes.Repeat([]byte{0xff}, 100),
		} {
			_, err := c.Decompress(nil, damaged, 1<<20)
			require.Error(t, err, "%v %x", c, damaged[:1])
		}
	}
	_, err := record.Codec(7).Decompress(nil, nil, 1)
	require.ErrorIs(t, err, record.ErrUnsupportedCodec)
	_, err = record.Codec(7).Compress(nil, nil)
	require.ErrorIs(t, err, record.ErrUnsupportedCodec)
}

func TestCodecNames(t *testing.T) {
	for _, c := range codecs {
		got, err := record.ParseCodec(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	_, err := record.ParseCodec("brotli")
	require.ErrorIs(t, err, record.ErrUnsupportedCodec)
	require.Equal(t, "codec(6)", record.Codec(6).String())
}
