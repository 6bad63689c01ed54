package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/millstream-io/millstream/core/record"
)

// wireConn is one connection that sends frames made beforehand.
type wireConn struct {
	net.Conn
	in  *bufio.Reader
	buf []byte
}

func dial(addr string) (*wireConn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return &wireConn{Conn: c, in: bufio.NewReaderSize(c, 256<<10), buf: make([]byte, 4<<10)}, nil
}

// produceOK reads the answer to a Produce request of version 9 and checks each partition of it.
func (c *wireConn) produceOK() error {
	size, err := c.size()
	if err != nil {
		return err
	}
	if size > len(c.buf) {
		c.buf = make([]byte, size)
	}
	if _, err := io.ReadFull(c.in, c.buf[:size]); err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	answer := kmsg.ProduceResponse{Version: produceVersion}
	if err := answer.ReadFrom(c.buf[5:size]); err != nil { // behind correlation id and tags
		return fmt.Errorf("decode an answer: %w", err)
	}
	for i := range answer.Topics {
		for j := range answer.Topics[i].Partitions {
			if p := &answer.Topics[i].Partitions[j]; p.ErrorCode != 0 {
				return fmt.Errorf("partition %d was refused with code %d", p.Partition, p.ErrorCode)
			}
		}
	}
	return nil
}

// skip reads an answer of any kind and returns its size.
func (c *wireConn) skip() (int, error) {
	size, err := c.size()
	if err != nil {
		return 0, err
	}
	if _, err := c.in.Discard(size); err != nil {
		return 0, fmt.Errorf("read an answer: %w", err)
	}
	return size, nil
}

// drop is skip without a copy of the answer, which works only if nothing else reads.
func (c *wireConn) drop() (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return 0, fmt.Errorf("read the size of an answer: %w", err)
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("drop an answer: %w", err)
	}
	scratch := make([]byte, min(size, 64<<10))
	for left := size; left > 0; {
		n := 0
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, _, failed = unix.Recvfrom(int(fd), scratch[:min(left, len(scratch))], unix.MSG_TRUNC)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err = errors.Join(err, failed); err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, fmt.Errorf("drop an answer: %w", err)
		}
		left -= n
	}
	return size, nil
}

func (c *wireConn) size() (int, error) {
	head, err := c.in.Peek(4)
	if err != nil {
		return 0, fmt.Errorf("read the size of an answer: %w", err)
	}
	size := int(binary.BigEndian.Uint32(head))
	_, err = c.in.Discard(4)
	return size, err
}

// pump sends what next gives, with at most window requests unanswered, until it gives nil. take
// reads one answer.
func (c *wireConn) pump(window int, next func() []byte, take func() error) error {
	tokens, failed := make(chan struct{}, window), make(chan error, 1)
	sent := make(chan struct{}, window)
	go func() {
		defer close(failed)
		for range sent {
			if err := take(); err != nil {
				failed <- err
				return
			}
			<-tokens
		}
	}()
	for frame := next(); frame != nil; frame = next() {
		select {
		case tokens <- struct{}{}:
		case err := <-failed:
			return err
		}
		if _, err := c.Write(frame); err != nil {
			return fmt.Errorf("send a request: %w", err)
		}
		sent <- struct{}{}
	}
	close(sent)
	return <-failed
}

// Versions of the requests that are sent: the last ones with topics by name.
const (
	produceVersion = 9
	fetchVersion   = 12
)

func frame(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, 1)
}

// produceFrame is a request with one batch for each of the partitions.
func produceFrame(topic string, acks int16, batch []byte, partitions ...int32) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = produceVersion, acks, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for _, index := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = index, batch
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return frame(req)
}

// fetchFrame asks for at most size bytes from offset of one partition.
func fetchFrame(topic string, partition int32, offset int64, size int32) []byte {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = fetchVersion, 500, 1, size
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, size
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return frame(req)
}

// batchOf builds a batch of 1 KiB records of about size bytes, and says how many records it has.
func batchOf(size int) ([]byte, int, error) {
	b := record.NewBuilder(record.BuilderOptions{})
	value := make([]byte, min(1<<10, size))
	n := 0
	for n == 0 || b.Size() < size-len(value) {
		b.Append(record.Record{Timestamp: time.Now().UnixMilli(), Value: value})
		n++
	}
	batch, err := b.Build()
	if err != nil {
		return nil, 0, fmt.Errorf("build a batch: %w", err)
	}
	return append([]byte(nil), batch...), n, nil
}
