package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const coldTotal = 4_000_000_000

// latencies of requests.
type latencies []time.Duration

func join(parts []latencies) latencies {
	all := slices.Concat(parts...)
	slices.Sort(all)
	return all
}

// at returns a quantile of sorted latencies.
func (l latencies) at(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(int(q*float64(len(l))), len(l)-1)]
}

func (l latencies) String() string {
	return fmt.Sprintf(" (p50 %v, p99 %v, p99.9 %v)", l.at(.5).Round(time.Microsecond),
		l.at(.99).Round(time.Microsecond), l.at(.999).Round(time.Microsecond))
}

// manyPartitions compares batches of 1 KiB to one partition with the same to 10,000 in turn.
func (b *bench) manyPartitions() (result, error) {
	one, err := b.produceSmall(8, 50, 1)
	if err != nil {
		return result{}, err
	}
	const partitions, conns = 10_000, 8
	remove, err := b.topic("many", partitions, "os")
	if err != nil {
		return result{}, err
	}
	defer remove()
	batch, _, err := batchOf(1 << 10)
	if err != nil {
		return result{}, err
	}
	frames := make([][]byte, partitions)
	for i := range frames {
		frames[i] = produceFrame(b.last, acksAll, batch, int32(i))
	}
	var count atomic.Int64
	var took time.Duration
	for round := range 2 { // the first one makes the files' first pages
		count.Store(0)
		took, err = b.each(conns, func(i int, c *wireConn) error {
			n, end := 0, time.Now().Add(smallFor)
			next := func() []byte {
				if n >= partitions/conns && (round == 0 || time.Now().After(end)) {
					return nil
				}
				n++
				count.Add(1)
				return frames[(n*conns+i)%partitions]
			}
			return c.pump(50, next, c.produceOK)
		})
		if err != nil {
			return result{}, err
		}
	}
	many := float64(count.Load()) / took.Seconds()
	return result{many / one.figure, "of one partition's rate",
		fmt.Sprintf(" (%.0f, %.0f req/s)", one.figure, many)}, nil
}

// cold compares the latency of others' produce requests while a consumer reads 4 GB that are not in
// the page cache with that before.
func (b *bench) cold() (result, error) {
	if b.data == "" {
		return result{}, fmt.Errorf("-data says which files to drop from the page cache")
	}
	removeOld, err := b.topic("cold", 2, "os")
	if err != nil {
		return result{}, err
	}
	defer removeOld()
	_, records, err := b.fill(1<<20, coldTotal)
	if err != nil {
		return result{}, err
	}
	old := b.last
	if err := b.dropCache(old); err != nil {
		return result{}, err
	}
	remove, err := b.topic("hot", 1, "os")
	if err != nil {
		return result{}, err
	}
	defer remove()
	hot := b.last
	stopped := make(chan struct{})
	if _, err := b.probe(hot, closeAfter(2*time.Second)); err != nil { // throw-away
		return result{}, err
	}
	quiet, err := b.probe(hot, closeAfter(6*time.Second))
	if err != nil {
		return result{}, err
	}
	var reading time.Duration
	failed := make(chan error, 1)
	go func() {
		defer close(stopped)
		began := time.Now()
		failed <- b.readElsewhere(old, records)
		reading = time.Since(began)
	}()
	busy, err := b.probe(hot, stopped)
	if err == nil {
		err = <-failed
	}
	if err != nil {
		return result{}, err
	}
	return result{float64(busy.at(.99)) / float64(quiet.at(.99)), "times the p99",
		fmt.Sprintf(" (before%s, while%s, read %.2f GB/s)", quiet, busy,
			coldTotal/1e9/reading.Seconds())}, nil
}

func closeAfter(d time.Duration) chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

// probe produces 1,000 records of 1 KiB a second, each due at a random moment of its millisecond,
// until stop, and takes the time from when each was due.
func (b *bench) probe(topic string, stop <-chan struct{}) (latencies, error) {
	batch, _, err := batchOf(1 << 10)
	if err != nil {
		return nil, err
	}
	var took latencies
	_, err = b.each(1, func(_ int, c *wireConn) error {
		frame := produceFrame(topic, acksAll, batch, 0)
		began := time.Now()
		due := make(chan time.Time, 100_000)
		n := 0
		next := func() []byte {
			select {
			case <-stop:
				return nil
			default:
			}
			n++
			at := began.Add(time.Duration(n)*time.Millisecond + rand.N(time.Millisecond))
			sleepUntil(at)
			due <- at
			return frame
		}
		return c.pump(1000, next, func() error {
			err := c.produceOK()
			took = append(took, time.Since(<-due))
			return err
		})
	})
	return join([]latencies{took}), err
}

// sleepUntil is more exact than time.Sleep, which may take a millisecond too long.
func sleepUntil(at time.Time) {
	for left := time.Until(at); left > 0; left = time.Until(at) {
		span := unix.NsecToTimespec(left.Nanoseconds())
		_ = unix.Nanosleep(&span, nil) // interrupted: again
	}
}

// readElsewhere is readAll in a process of its own that gives way to all others, so that only the
// server is shared: a consumer on another machine takes no processor of this one.
func (b *bench) readElsewhere(topic string, records int) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command("chrt", "--idle", "0", self, "-bootstrap", b.addr, "-read", topic, "-records",
		strconv.Itoa(records))
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("read the cold topic: %w", err)
	}
	return nil
}

// readAll is one consumer that reads both partitions from the start, and drops what it gets in the
// kernel.
func (b *bench) readAll(topic string, records int) error {
	batch, _, err := batchOf(1 << 20)
	if err != nil {
		return err
	}
	_, err = b.each(1, func(_ int, c *wireConn) error {
		n, wanted := -1, coldTotal/2/len(batch)*2
		next := func() []byte {
			if n++; n == wanted {
				return nil
			}
			return fetchFrame(topic, int32(n%2), int64(n/2*records), 1<<20)
		}
		return c.pump(2, next, func() error {
			size, err := c.drop()
			if err == nil && size < len(batch) {
				err = fmt.Errorf("an answer of %d bytes has no batch", size)
			}
			return err
		})
	})
	return err
}

// dropCache writes the files of a topic to the disk and takes them out of the page cache.
func (b *bench) dropCache(topic string) error {
	unix.Sync()
	return filepath.WalkDir(b.data, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // of a topic that is being deleted
			return nil
		}
		if err != nil || e.IsDir() || !strings.Contains(name, topic) {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("drop %s from the page cache: %w", name, err)
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}
