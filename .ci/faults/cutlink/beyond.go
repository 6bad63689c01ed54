package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runBeyond is the clients that are cut off. It says "ready" with the time at which a transaction began, waits for a
// line, which comes when the link is back, and says how the producers went on.
func runBeyond(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var members []*member
	for _, protocol := range []string{"classic", "kip848"} {
		m, err := startMember(ctx, protocol)
		if err != nil {
			return err
		}
		members = append(members, m)
	}
	numbers, err := startNumbers(ctx)
	if err != nil {
		return err
	}
	for range slowReaders {
		if err := readSlowly(ctx); err != nil {
			return err
		}
	}
	for _, m := range members {
		for m.count() == 0 || numbers.acked.Load() < 20 {
			if err := pause(ctx); err != nil {
				return err
			}
		}
	}
	began := time.Now()
	open, err := openTransaction(ctx)
	if err != nil {
		return err
	}
	for range idleConnections {
		if err := beIdle(ctx); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out, "ready", began.UnixNano()); err != nil {
		return err
	}
	if !bufio.NewScanner(in).Scan() {
		return errors.New("nobody said that the link is back")
	}
	if err := numbers.end(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "acknowledged", numbers.acked.Load()); err != nil {
		return err
	}
	short, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	err = open.EndTransaction(short, kgo.TryCommit)
	if err == nil || short.Err() != nil {
		return fmt.Errorf("the commit of an aborted transaction is not refused: %v", err)
	}
	_, err = fmt.Fprintln(out, "commit refused:", err)
	return err
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}

// numbers is an idempotent producer of 0, 1, 2 and so on.
type numbers struct {
	acked  atomic.Int64
	cancel context.CancelFunc
	ended  chan error
}

func startNumbers(ctx context.Context) (*numbers, error) {
	cl, err := client(kgo.DefaultProduceTopic("numbers"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return nil, err
	}
	n := &numbers{ended: make(chan error, 1)}
	load, cancel := context.WithCancel(ctx)
	n.cancel = cancel
	go func() {
		defer cl.Close()
		var failed atomic.Pointer[error]
		for i := 0; load.Err() == nil; i++ {
			cl.Produce(ctx, kgo.StringRecord(strconv.Itoa(i)), func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
					return
				}
				n.acked.Add(1)
			})
			_ = pause(load)
		}
		err := cl.Flush(ctx)
		if first := failed.Load(); first != nil {
			err = *first
		}
		n.ended <- err
	}()
	return n, nil
}

// end waits until all are acknowledged.
func (n *numbers) end(ctx context.Context) error {
	n.cancel()
	select {
	case err := <-n.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openTransaction writes records and leaves the transaction open.
func openTransaction(ctx context.Context) (*kgo.Client, error) {
	cl, err := client(kgo.TransactionalID("open"), kgo.TransactionTimeout(transactionTimeout),
		kgo.DefaultProduceTopic("ledger"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	if err := cl.BeginTransaction(); err != nil {
		return nil, err
	}
	for i := range 10 {
		if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint("open ", i))).FirstErr(); err != nil {
			return nil, err
		}
	}
	return cl, nil
}

func request(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("cut")).AppendRequest(nil, req, 7)
}

// connected are the raw connections: nobody may collect them.
var connected []net.Conn

func dial(ctx context.Context, first kmsg.Request) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: -1}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	connected = append(connected, c)
	_, err = c.Write(request(first))
	return c, err
}

// beIdle connects, asks once and says no more.
func beIdle(ctx context.Context) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "cut", "1"
	c, err := dial(ctx, req)
	if err != nil {
		return err
	}
	_, err = readAnswer(c, 1<<20, 0)
	return err
}

// readAnswer reads an answer in steps, with a rest after each.
func readAnswer(c net.Conn, step int, rest time.Duration) (n int, err error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return 0, err
	}
	n = int(binary.BigEndian.Uint32(size[:]))
	for left := n; left > 0; left -= min(step, left) {
		if _, err := io.CopyN(io.Discard, c, int64(min(step, left))); err != nil {
			return 0, err
		}
		time.Sleep(rest)
	}
	return n, nil
}

// readSlowly fetches megabytes again and again, and reads them so slowly that there is always something in flight.
func readSlowly(ctx context.Context) error {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes, fetch.SessionEpoch = 11, 100, 1, 8<<20, -1
	topic, part := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, part.PartitionMaxBytes = "large", 8<<20
	topic.Partitions = append(topic.Partitions, part)
	fetch.Topics = append(fetch.Topics, topic)
	c, err := dial(ctx, fetch)
	if err != nil {
		return err
	}
	_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
	go func() {
		for {
			if _, err := readAnswer(c, 32<<10, 4*time.Millisecond); err != nil {
				return
			}
			if _, err := c.Write(request(fetch)); err != nil {
				return
			}
		}
	}()
	return nil
}
