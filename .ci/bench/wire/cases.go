package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	largeTotal = 3 << 30         // bytes of the cases with large batches
	smallFor   = 4 * time.Second // span of the cases with small ones
	acksAll    = -1
)

// each runs work once for each of n connections, at the same time.
func (b *bench) each(n int, work func(i int, c *wireConn) error) (time.Duration, error) {
	conns := make([]*wireConn, n)
	for i := range conns {
		c, err := dial(b.addr)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		conns[i] = c
	}
	errs := make([]error, n)
	began := time.Now()
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() { errs[i] = work(i, c) })
	}
	wg.Wait()
	return time.Since(began), errors.Join(errs...)
}

// repeat gives frame n times.
func repeat(frame []byte, n int) func() []byte {
	return func() []byte {
		if n--; n < 0 {
			return nil
		}
		return frame
	}
}

// during gives frame until the time is over and counts how often.
func during(frame []byte, span time.Duration, count *atomic.Int64) func() []byte {
	end := time.Now().Add(span)
	return func() []byte {
		if time.Now().After(end) {
			return nil
		}
		count.Add(1)
		return frame
	}
}

// fill writes total bytes in batches of size to the two partitions of the newest topic.
func (b *bench) fill(size, total int) (time.Duration, int, error) {
	batch, records, err := batchOf(size)
	if err != nil {
		return 0, 0, err
	}
	took, err := b.each(2, func(i int, c *wireConn) error {
		next := repeat(produceFrame(b.last, acksAll, batch, int32(i)), total/2/len(batch))
		return c.pump(5, next, c.produceOK)
	})
	return took, records, err
}

// produceLarge is two connections with 5 requests in flight each, to a partition each, page cache.
func (b *bench) produceLarge(size int) (result, error) {
	remove, err := b.topic("large", 2, "os")
	if err != nil {
		return result{}, err
	}
	defer remove()
	took, _, err := b.fill(size, largeTotal)
	return result{largeTotal / 1e9 / took.Seconds(), "GB/s", ""}, err
}

// fetchLarge is two connections with 2 requests of 1 MiB in flight each, what was written just before.
func (b *bench) fetchLarge() (result, error) {
	remove, err := b.topic("fetch", 2, "os")
	if err != nil {
		return result{}, err
	}
	defer remove()
	const span = 512 << 20
	_, records, err := b.fill(1<<20, span)
	if err != nil {
		return result{}, err
	}
	batch, _, err := batchOf(1 << 20)
	if err != nil {
		return result{}, err
	}
	perPartition := span / 2 / len(batch)
	var total atomic.Int64
	took, err := b.each(2, func(i int, c *wireConn) error {
		var frames [][]byte
		for n := range perPartition {
			frames = append(frames, fetchFrame(b.last, int32(i), int64(n*records), 1<<20))
		}
		asked, wanted := 0, 8*perPartition
		next := func() []byte {
			if asked == wanted {
				return nil
			}
			asked++
			return frames[asked%perPartition]
		}
		return c.pump(2, next, func() error {
			size, err := c.skip()
			if err == nil && size < len(batch) {
				err = fmt.Errorf("an answer of %d bytes has no batch", size)
			}
			total.Add(int64(size))
			return err
		})
	})
	return result{float64(total.Load()) / 1e9 / took.Seconds(), "GB/s", ""}, err
}

// produceSmall is batches of one 1 KiB record, page cache.
func (b *bench) produceSmall(conns, window int, partitions int32) (result, error) {
	remove, err := b.topic("small", partitions, "os")
	if err != nil {
		return result{}, err
	}
	defer remove()
	batch, _, err := batchOf(1 << 10)
	if err != nil {
		return result{}, err
	}
	var count atomic.Int64
	took, err := b.each(conns, func(i int, c *wireConn) error {
		frame := produceFrame(b.last, acksAll, batch, int32(i)%partitions)
		return c.pump(window, during(frame, smallFor, &count), c.produceOK)
	})
	return result{float64(count.Load()) / took.Seconds(), "req/s", ""}, err
}

// durable is synchronous producers of 1 KiB records, each acknowledged when it is on the disk.
func (b *bench) durable(conns int, partitions int32) (result, error) {
	remove, err := b.topic("durable", partitions, "group")
	if err != nil {
		return result{}, err
	}
	defer remove()
	batch, _, err := batchOf(1 << 10)
	if err != nil {
		return result{}, err
	}
	took := make([]latencies, conns)
	span, err := b.each(conns, func(i int, c *wireConn) error {
		frame := produceFrame(b.last, acksAll, batch, int32(i)%partitions)
		for end := time.Now().Add(smallFor); time.Now().Before(end); {
			began := time.Now()
			if _, err := c.Write(frame); err != nil {
				return fmt.Errorf("send a request: %w", err)
			}
			if err := c.produceOK(); err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(began))
		}
		return nil
	})
	all := join(took)
	return result{float64(len(all)) / span.Seconds(), "req/s", all.String()}, err
}
