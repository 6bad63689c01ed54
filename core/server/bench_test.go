package server_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// rawClient writes frames made beforehand and throws the answers away, without allocating.
type rawClient struct {
	c   net.Conn
	buf []byte
}

func newRawClient(t testing.TB, c *coretest.Cluster) *rawClient {
	w := dial(t, c)
	advertised(w) // before its first valid request a client may send little
	return &rawClient{c: w.c, buf: make([]byte, 256<<10)}
}

func (r *rawClient) write(frame []byte) error {
	_, err := r.c.Write(frame)
	return err
}

// skip reads one answer and returns its size.
func (r *rawClient) skip() (int, error) {
	if _, err := io.ReadFull(r.c, r.buf[:4]); err != nil {
		return 0, err
	}
	size := int(binary.BigEndian.Uint32(r.buf))
	for left := size; left > 0; {
		n, err := r.c.Read(r.buf[:min(left, len(r.buf))])
		if err != nil {
			return 0, err
		}
		left -= n
	}
	return size, nil
}

func frameOf(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
}

// sizedBatch is a batch of 1 KiB records that is about size bytes long.
func sizedBatch(t testing.TB, size int) []byte {
	b := record.NewBuilder(record.BuilderOptions{})
	value := make([]byte, min(1024, size))
	for b.Size() < size-100 {
		b.Append(record.Record{Timestamp: 1_700_000_000_000, Value: value})
	}
	out, err := b.Build()
	require.NoError(t, err)
	return append([]byte(nil), out...)
}

// benchTopic makes a topic that leaves syncing to the system.
func benchTopic(t testing.TB, c *coretest.Cluster, name string) {
	flush, large, retain := "os", "8388608", "536870912"
	newTopic(t, c, name, 1, map[string]*string{
		"flush": &flush, "max.message.bytes": &large, "retention.bytes": &retain,
	})
}

func BenchmarkProduce(b *testing.B) {
	for _, os := range []bool{true, false} {
		for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
			for _, window := range []int{1, 20} {
				b.Run(fmt.Sprintf("tcp=%v/size=%d/inflight=%d", os, size, window),
					func(b *testing.B) { benchmarkProduce(b, os, size, window) })
			}
		}
	}
}

func benchmarkProduce(b *testing.B, os bool, size, window int) {
	c := coretest.Start(b, coretest.Options{OS: os})
	benchTopic(b, c, "t")
	r := newRawClient(b, c)
	frame := frameOf(produceRequest(9, "t", [16]byte{}, 0, sizedBatch(b, size)))
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	answers := make(chan error, window)
	open := make(chan struct{}, window)
	go func() {
		for range open {
			_, err := r.skip()
			answers <- err
		}
	}()
	sent, received := 0, 0
	for b.Loop() {
		if sent-received == window {
			require.NoError(b, <-answers)
			received++
		}
		require.NoError(b, r.write(frame))
		open <- struct{}{}
		sent++
	}
	for ; received < sent; received++ {
		require.NoError(b, <-answers)
	}
	close(open)
}

func BenchmarkFetch(b *testing.B) {
	for _, os := range []bool{true, false} {
		for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("tcp=%v/size=%d", os, size),
				func(b *testing.B) { benchmarkFetch(b, os, size) })
		}
	}
}

func benchmarkFetch(b *testing.B, os bool, size int) {
	c := coretest.Start(b, coretest.Options{OS: os})
	benchTopic(b, c, "t")
	r := newRawClient(b, c)
	produce := frameOf(produceRequest(9, "t", [16]byte{}, 0, sizedBatch(b, size)))
	for range 16 {
		require.NoError(b, r.write(produce))
		_, err := r.skip()
		require.NoError(b, err)
	}
	req := fetchRequest(12, "t", [16]byte{}, 0, 0)
	first(req).PartitionMaxBytes = int32(size)
	frame := frameOf(req)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, r.write(frame))
		_, err := r.skip()
		require.NoError(b, err)
	}
}
