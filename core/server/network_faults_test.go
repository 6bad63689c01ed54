package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// goldenRequest is a request of testdata/golden, without its length.
type goldenRequest struct {
	name  string
	bytes []byte
}

// goldenRequests has every version of every key that is served.
func goldenRequests(t *testing.T) []goldenRequest {
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.txt"))
	require.NoError(t, err)
	var all []goldenRequest
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(raw)) {
			fields := strings.Fields(line)
			if fields[1] != "request" {
				continue
			}
			b, err := hex.DecodeString(fields[3])
			require.NoError(t, err)
			all = append(all, goldenRequest{filepath.Base(file) + " " + fields[0] + fields[2], b})
		}
	}
	require.Greater(t, len(all), 300)
	return all
}

// reset ends a connection as a host that crashes does, with RST.
func reset(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.(*net.TCPConn).SetLinger(0))
	require.NoError(t, c.Close())
}

// tcpDial connects without a cleanup: the test ends the connection.
func tcpDial(t testing.TB, c *coretest.Cluster) net.Conn {
	t.Helper()
	conn, err := c.Dialer()(context.Background(), "tcp", c.Addr())
	require.NoError(t, err)
	return conn
}

// resources are what connections must give back.
func resources() (goroutines, descriptors int) {
	fds, _ := os.ReadDir("/proc/self/fd")
	return runtime.NumGoroutine(), len(fds)
}

// requireGivenBack waits until the broker holds no more than before, but for some of its own: what
// a fault would leave is a thousand and more.
func requireGivenBack(t *testing.T, goroutines, descriptors int) {
	t.Helper()
	require.Eventually(t, func() bool {
		g, d := resources()
		return g <= goroutines+100 && d <= descriptors+100
	}, time.Minute, 20*time.Millisecond)
}

// F11: a connection breaks within each request of each version, and after it, when its answer has
// nobody to go to. Nothing stays behind, and others do not notice.
func TestF11_ResetWithinEveryRequest(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	bystander := dial(t, c)
	requireAnswered := func() {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		require.NotEmpty(t, ask[*kmsg.MetadataResponse](bystander, req).Brokers)
	}
	requireAnswered()
	goroutines, descriptors := 0, 0
	for round := range 2 { // the first one makes topics, groups and transactions
		for _, g := range goldenRequests(t) {
			frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(g.bytes))), g.bytes...)
			for _, n := range []int{len(frame) / 2, len(frame) - 1, len(frame)} {
				conn := tcpDial(t, c)
				_, err := conn.Write(frame[:n])
				require.NoError(t, err, g.name)
				reset(t, conn)
			}
		}
		requireAnswered()
		if round == 0 {
			goroutines, descriptors = resources()
		}
	}
	requireGivenBack(t, goroutines, descriptors)
}

// F22: 5,000 connections at once, each with half a request, and then as many that come and go. They
// cost little, a client that was there before is served meanwhile, and so are they when the rest of
// their requests comes.
func TestF22_FiveThousandConnections(t *testing.T) {
	const n = 5000
	c := coretest.Start(t, coretest.Options{OS: true})
	newTopic(t, c, "t", 1, nil)
	bystander := dial(t, c)
	serve := func() {
		produceOne(bystander, produceRequest(9, "t", [16]byte{}, 0, sizedBatch(t, 1<<10)))
	}
	serve()
	goroutines, descriptors := resources()
	before := heapInUse()
	frame := frameOf(versionsRequest())
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = tcpDial(t, c)
		_, err := conns[i].Write(frame[:len(frame)/2])
		require.NoError(t, err)
		if i%500 == 0 {
			serve()
		}
	}
	serve()
	for i, conn := range conns { // the rest comes
		if i%10 != 0 {
			continue
		}
		_, err := conn.Write(frame[len(frame)/2:])
		require.NoError(t, err)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, err = conn.Read(make([]byte, 4))
		require.NoError(t, err, "connection %d", i)
	}
	// 16 KiB each, of which the client's half is a part.
	require.Less(t, heapInUse()-before, int64(n*16<<10))
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	requireGivenBack(t, goroutines, descriptors)
	var storm sync.WaitGroup
	for range 8 {
		storm.Go(func() {
			for range n / 8 {
				if conn, err := c.Dialer()(context.Background(), "tcp", c.Addr()); err == nil {
					_ = conn.(*net.TCPConn).SetLinger(0)
					_ = conn.Close()
				}
			}
		})
	}
	for range 50 {
		serve()
	}
	storm.Wait()
	requireGivenBack(t, goroutines, descriptors)
}

func versionsRequest() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "test", "1"
	return req
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// F20: what is no Kafka request, at the port and behind a first request, closes its connection.
func TestF20_OtherProtocols(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	goroutines, descriptors := resources()
	hello := append([]byte{0x16, 3, 1, 1, 0x2c, 1, 0, 1, 0x28, 3, 3}, bytes.Repeat([]byte{7}, 300)...)
	for name, garbage := range map[string][]byte{
		"HTTP":        []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"HTTP/2":      []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"TLS":         hello,
		"SSH":         []byte("SSH-2.0-OpenSSH_9.6\r\n"),
		"PROXY":       []byte("PROXY TCP4 192.0.2.1 192.0.2.2 5 6\r\n"),
		"all ones":    bytes.Repeat([]byte{0xff}, 1000),
		"zeros":       make([]byte, 1000),
		"text":        []byte(strings.Repeat("hello, is anybody there? ", 100)),
		"2 GiB to go": {0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 9, 0, 0, 0, 1},
	} {
		for _, after := range []bool{false, true} {
			w := dial(t, c)
			if after {
				ask[*kmsg.ApiVersionsResponse](w, versionsRequest())
			}
			_, err := w.c.Write(garbage)
			require.NoError(t, err, name)
			w.requireClosed()
			_ = w.c.Close()
		}
	}
	requireGivenBack(t, goroutines, descriptors)
}

// zstdBomb is a frame of zeros: each block of four bytes stands for 128 KiB (RFC 8878, RLE_Block).
func zstdBomb(size int) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38} // no content size; a window of 128 KiB
	for at := 0; at < size; at += 128 << 10 {
		last := uint32(0)
		if at+128<<10 >= size {
			last = 1
		}
		header := uint32(128<<10)<<3 | 1<<1 | last
		out = append(out, byte(header), byte(header>>8), byte(header>>16), 0)
	}
	return out
}

// rawBatch is a batch of a codec with any content and count.
func rawBatch(codec record.Codec, count int32, records []byte) []byte {
	b := make([]byte, record.HeaderSize, record.HeaderSize+len(records))
	binary.BigEndian.PutUint32(b[8:], uint32(record.HeaderSize-12+len(records)))
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], uint16(codec))
	binary.BigEndian.PutUint32(b[23:], uint32(count-1))
	now := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(b[27:], now)
	binary.BigEndian.PutUint64(b[35:], now)
	for i := 43; i < 57; i++ {
		b[i] = 0xff // no producer, epoch, sequence
	}
	binary.BigEndian.PutUint32(b[57:], uint32(count))
	b = append(b, records...)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// F21: bombs of each codec, and counts that lie, sent to topics whose records the broker has to
// look into: refused, in little memory, and the connection goes on.
func TestF21_BombsAndCountsThatLie(t *testing.T) {
	c := coretest.Start(t, coretest.Options{OS: true})
	zeros := make([]byte, 256<<20)
	bombs := map[string][]byte{
		"zstd of 10 GiB":  rawBatch(record.Zstd, 1, zstdBomb(10<<30)),
		"2^31-1 records":  rawBatch(record.Gzip, 1<<31-1, packed(t, record.Gzip, zeros[:100])),
		"a million empty": rawBatch(record.Zstd, 1_000_000, zstdBomb(1<<20)),
		"no records":      rawBatch(record.None, 0, nil),
		"negative count":  rawBatch(record.None, -5, zeros[:10]),
	}
	for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.Lz4, record.Zstd} {
		size := map[record.Codec]int{record.Snappy: 18 << 20, record.Lz4: 200 << 20}[codec]
		if size == 0 {
			size = len(zeros)
		}
		bombs[fmt.Sprint(codec)] = rawBatch(codec, 1, packed(t, codec, zeros[:size]))
	}
	zeros = nil
	compact, gzip, zstd := "compact", "gzip", "zstd"
	newTopic(t, c, "compacted", 1, map[string]*string{"cleanup.policy": &compact})
	newTopic(t, c, "to-gzip", 1, map[string]*string{"compression.type": &gzip})
	newTopic(t, c, "to-zstd", 1, map[string]*string{"compression.type": &zstd})
	w := dial(t, c)
	for name, bomb := range bombs {
		require.Less(t, len(bomb), 1<<20, name)
		for _, topic := range []string{"compacted", "to-gzip", "to-zstd"} {
			if strings.TrimPrefix(topic, "to-") == fmt.Sprint(record.Batch(bomb).Codec()) {
				continue // stored as it is: only its readers look into it
			}
			before := totalAllocated()
			resp := ask[*kmsg.ProduceResponse](w, produceRequest(9, topic, [16]byte{}, 0, bomb))
			require.NotZero(t, resp.Topics[0].Partitions[0].ErrorCode, "%s to %s", name, topic)
			require.Less(t, totalAllocated()-before, int64(128<<20), "%s to %s", name, topic)
		}
	}
}

func packed(t *testing.T, codec record.Codec, b []byte) []byte {
	out, err := codec.Compress(nil, b)
	require.NoError(t, err)
	return out
}

func totalAllocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}
