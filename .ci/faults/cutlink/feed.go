package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groups is by how many names numbers are counted.
const groups = 20

// feed gives our programs numbers, while the host is gone too: to a topic, on its own side of the link, to a file that a
// connector reads, and to the standard input of a producer.
type feed struct {
	cl     *kgo.Client
	file   *os.File
	said   *os.File
	cancel context.CancelFunc
	all    sync.WaitGroup
	// How many numbers were given to each.
	fed, written, told atomic.Int64

	mu  sync.Mutex
	err error
}

func startFeed(ctx context.Context, cl *kgo.Client, path string, said *os.File) (*feed, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	f := &feed{cl: cl, file: file, said: said}
	ctx, f.cancel = context.WithCancel(ctx)
	f.every(ctx, 10*time.Millisecond, &f.fed, func(i int64) error { f.number(fmt.Sprintf("g%d", i%groups)); return nil })
	f.every(ctx, 50*time.Millisecond, &f.written, func(i int64) error { _, err := fmt.Fprintln(file, i); return err })
	f.every(ctx, 20*time.Millisecond, &f.told, func(i int64) error { _, err := fmt.Fprintln(said, i); return err })
	return f, nil
}

// number writes a record of a group.
func (f *feed) number(group string) {
	n := f.fed.Load()
	rec := &kgo.Record{Topic: "numbers-in", Key: fmt.Append(nil, "k", n%97), Value: fmt.Appendf(nil, `{"g":%q}`, group)}
	f.cl.Produce(context.Background(), rec, func(_ *kgo.Record, err error) { f.failed(err) })
}

func (f *feed) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = errors.Join(f.err, err)
}

// every gives the next number, again and again.
func (f *feed) every(ctx context.Context, span time.Duration, n *atomic.Int64, give func(i int64) error) {
	f.all.Go(func() {
		tick := time.NewTicker(span)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := give(n.Load()); err != nil {
				f.failed(err)
				return
			}
			n.Add(1)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
}

func (f *feed) stop() {
	if f == nil {
		return
	}
	f.cancel()
	_ = f.said.Close()
	f.cl.Close()
}

// end gives no more numbers and tells how many there were. The last results of a partition wait for later records in the
// others, so some of another group follow.
func (f *feed) end(ctx context.Context) (fed, written, told int, err error) {
	f.cancel()
	f.all.Wait()
	fed, written, told = int(f.fed.Load()), int(f.written.Load()), int(f.told.Load())
	if err := errors.Join(f.cl.Flush(ctx), f.said.Close(), f.file.Close()); err != nil {
		return 0, 0, 0, err
	}
	for range 500 {
		f.fed.Add(1)
		f.number("end")
	}
	err = f.cl.Flush(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	return fed, written, told, errors.Join(err, f.err)
}

// read returns the values in a topic.
func (f *feed) read(ctx context.Context, topic string) (values []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	// Committed ones: behind them only the end of a transaction may come.
	ends, err := kadm.NewClient(f.cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	cl, err := client(kgo.ConsumeTopics(topic), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	next := map[int32]int64{}
	left := func() (n int64) {
		ends.Each(func(l kadm.ListedOffset) { n += max(l.Offset-next[l.Partition], 0) })
		return n
	}
	for left() > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return values, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if next[r.Partition] = r.Offset + 1; !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
	}
	return values, nil
}

// counted adds up the results that the consumer printed, and tells which do not follow the one before.
func (o *ours) counted() (total int, wrong []string) {
	f, err := os.Open(o.consumer.out)
	if err != nil {
		return 0, []string{err.Error()}
	}
	defer func() { _ = f.Close() }()
	last := map[string]int{}
	lines := json.NewDecoder(f)
	for {
		var result struct {
			Key   string
			Value json.RawMessage
		}
		err := lines.Decode(&result)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return total, wrong
		}
		var count struct{ N int }
		if err == nil {
			err = json.Unmarshal(unquoted(result.Value), &count)
		}
		if err != nil {
			return total, append(wrong, err.Error())
		}
		group := strings.Trim(result.Key, `"`)
		if group == "end" {
			continue
		}
		if count.N != last[group]+1 {
			wrong = append(wrong, fmt.Sprintf("%s goes from %d to %d", group, last[group], count.N))
		}
		last[group] = count.N
		total++
	}
}

// unquoted is a JSON text that may be a string in JSON.
func unquoted(text json.RawMessage) []byte {
	var s string
	if json.Unmarshal(text, &s) == nil {
		return []byte(s)
	}
	return text
}
