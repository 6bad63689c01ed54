package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// zeros compresses some MiB of zeros once.
var zeros = sync.OnceValue(func() map[uint16][]byte {
	plain := make([]byte, 64<<20)
	var g, l bytes.Buffer
	gz := gzip.NewWriter(&g)
	_, _ = gz.Write(plain)
	_ = gz.Close()
	lz := lz4.NewWriter(&l)
	_, _ = lz.Write(plain)
	_ = lz.Close()
	return map[uint16][]byte{1: g.Bytes(), 2: s2.EncodeSnappy(nil, plain[:16<<20]), 3: l.Bytes(), 4: zstdZeros(10 << 30)}
})

// zstdZeros is a frame in which each block of four bytes stands for 128 KiB (RFC 8878, RLE_Block).
func zstdZeros(size int) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38}
	for at := 0; at < size; at += 128 << 10 {
		header := uint32(128<<10)<<3 | 1<<1
		if at+128<<10 >= size {
			header |= 1
		}
		out = append(out, byte(header), byte(header>>8), byte(header>>16), 0)
	}
	return out
}

// batch has any codec, count and content, and a right CRC.
func batch(codec uint16, count int32, records []byte) []byte {
	const headerSize = 61
	b := make([]byte, headerSize, headerSize+len(records))
	binary.BigEndian.PutUint32(b[8:], uint32(headerSize-12+len(records)))
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], codec)
	binary.BigEndian.PutUint32(b[23:], uint32(count-1))
	now := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(b[27:], now)
	binary.BigEndian.PutUint64(b[35:], now)
	for i := 43; i < 57; i++ {
		b[i] = 0xff
	}
	binary.BigEndian.PutUint32(b[57:], uint32(count))
	b = append(b, records...)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func produce(topic string, partition int32, records []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 1000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, p.Partition, p.Records = topic, partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return request(req)
}

func bombs(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.node.strangers())
	if c == nil {
		return
	}
	defer hangUp(c, r)
	for range 10 {
		codec := uint16(r.IntN(5))
		records := zeros()[codec]
		if codec == 0 {
			records = randomBytes(r, r.IntN(100_000))
		}
		n := []int32{1, 0, -1, 1<<31 - 1, 1000}[r.IntN(5)]
		topic := []string{"attack-plain", "attack-compacted", "attack-gzip", "checked"}[r.IntN(4)]
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Write(produce(topic, int32(r.IntN(3)), batch(codec, n, records))); err != nil {
			return
		}
		count.Add(1)
		var size [4]byte
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size[:]))); err != nil {
			return
		}
	}
	rest(ctx, 200*time.Millisecond)
}

// groups sends good requests that want something kept, as fast as they are answered.
func groups(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64) {
	c := dial(ctx, w.node.strangers())
	if c == nil {
		return
	}
	defer hangUp(c, r)
	name := func() string { return fmt.Sprintf("attack-%d", r.IntN(20_000)) }
	for range 50 {
		var req kmsg.Request
		switch r.IntN(6) {
		case 0:
			join := kmsg.NewPtrJoinGroupRequest()
			join.Version, join.Group, join.ProtocolType = 5, name(), "consumer"
			join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 6000, 6000
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = "range", make([]byte, r.IntN(20_000))
			join.Protocols = append(join.Protocols, p)
			req = join
		case 1:
			begin := kmsg.NewPtrInitProducerIDRequest()
			id := name()
			begin.Version, begin.TransactionTimeoutMillis, begin.TransactionalID = 3, 5000, &id
			begin.ProducerID, begin.ProducerEpoch = -1, -1
			req = begin
		case 2:
			beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			beat.Version, beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = 1, name(), name(), 5000
			beat.SubscribedTopicNames = []string{"attack-plain"}
			beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			req = beat
		case 3:
			commit := kmsg.NewPtrOffsetCommitRequest()
			commit.Version, commit.Group, commit.Generation = 7, name(), -1
			t, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
			text := string(make([]byte, r.IntN(8000)))
			t.Topic, p.Offset, p.Metadata = "attack-plain", 1, &text
			t.Partitions = append(t.Partitions, p)
			commit.Topics = append(commit.Topics, t)
			req = commit
		case 4:
			create := kmsg.NewPtrCreateTopicsRequest()
			create.Version = 5
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = name(), int32(1+r.IntN(3)), 1
			create.Topics = append(create.Topics, t)
			req = create
		case 5:
			list := kmsg.NewPtrListGroupsRequest()
			list.Version = 3
			req = list
		}
		if _, err := c.Write(request(req)); err != nil {
			return
		}
		count.Add(1)
		listenOnce(c)
	}
}

// listenOnce reads what comes at once, or nothing.
func listenOnce(c interface {
	io.Reader
	SetReadDeadline(time.Time) error
}) {
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, _ = c.Read(make([]byte, 64<<10))
}
