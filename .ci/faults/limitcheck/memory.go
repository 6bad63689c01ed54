package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	softLimit = "64MiB"
	hardLimit = 100 << 20
	clients   = 200
)

func memory(ctx context.Context, n *node) error {
	if err := n.start(ctx, []string{"env"}, "GOMEMLIMIT="+softLimit); err != nil {
		return err
	}
	hard, end := n.cgroup()
	defer end()
	fmt.Printf("GOMEMLIMIT=%s, hard limit of %d MiB: %v\n", softLimit, hardLimit>>20, hard)
	admin, err := n.client()
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := kadm.NewClient(admin).CreateTopic(ctx, 6, 1, nil, "t"); err != nil {
		return err
	}
	var acked, refused, read atomic.Int64
	load, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	go func() { <-n.ended; stop() }()
	value := make([]byte, 960<<10)
	_, _ = rand.Read(value)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			cl, err := n.client(kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"), kgo.FetchMaxBytes(50<<20),
				kgo.FetchMaxPartitionBytes(50<<20), kgo.BrokerMaxReadBytes(200<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
			if err != nil {
				return
			}
			defer cl.Close()
			for load.Err() == nil {
				if i%4 == 0 {
					// Reads little of what it asked for, and then nothing for a while.
					read.Add(int64(len(cl.PollRecords(load, 10).Records())))
					pause(load, time.Second)
					continue
				}
				switch err := cl.ProduceSync(load, &kgo.Record{Value: value}).FirstErr(); {
				case err == nil:
					acked.Add(1)
				case load.Err() == nil:
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	fmt.Printf("%d clients: %d records of 960 KiB acknowledged, %d refused, %d read; peak of resident memory %d MiB\n",
		clients, acked.Load(), refused.Load(), read.Load(), n.status("VmHWM")>>10)
	if !n.alive() {
		return errors.New("the broker was killed: " + n.process.ProcessState.String())
	}
	if acked.Load() == 0 {
		return errors.New("nothing was acknowledged")
	}
	ends, err := kadm.NewClient(admin).ListEndOffsets(ctx, "t")
	if err != nil {
		return err
	}
	there := int64(0)
	ends.Each(func(o kadm.ListedOffset) { there += o.Offset })
	if there < acked.Load() {
		return fmt.Errorf("%d records are there, %d were acknowledged", there, acked.Load())
	}
	fmt.Println("ok: memory")
	return nil
}

func pause(ctx context.Context, span time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(span):
	}
}

// cgroup puts the broker under a hard limit, if the machine lets it.
func (n *node) cgroup() (ok bool, end func()) {
	dir := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprint("limitcheck-", os.Getpid()))
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, limit = filepath.Join("/sys/fs/cgroup", filepath.Base(dir)), "memory.max"
	}
	if os.Mkdir(dir, 0o755) != nil {
		return false, func() {}
	}
	end = func() { n.kill(); _ = os.Remove(dir) }
	if os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(hardLimit)), 0) != nil {
		return false, end
	}
	pid := []byte(strconv.Itoa(n.process.Process.Pid))
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0) == nil, end
}
