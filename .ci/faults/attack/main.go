package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of what strangers may do to others, on a machine that attackers and broker share.
const (
	p99Limit    = 8 * time.Second
	worstLimit  = 15 * time.Second
	memoryLimit = 600 << 20
	// linesPerSecond is how much the log may grow under attack: some kinds of lines have five each.
	linesPerSecond = 40
	settleTime     = 45 * time.Second
	leftOver       = 64 // goroutines and sockets that may be more than before
)

func main() {
	var n node
	span := flag.Duration("for", time.Minute, "how long to attack")
	golden := flag.String("golden", "core/server/testdata/golden", "recorded requests")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random numbers")
	only := flag.String("only", "", "attacks to make, separated by commas; default all")
	flag.StringVar(&n.Binary, "binary", "", "the millstream program")
	flag.StringVar(&n.Dir, "dir", "", "directory for the data and the log")
	flag.IntVar(&n.port, "port", 21570, "the first of three ports")
	flag.IntVar(&n.hard, "hard", 700, "MiB of memory that the process is killed at, where the machine has cgroups")
	flag.Parse()
	if n.Binary == "" || n.Dir == "" {
		fmt.Fprintln(os.Stderr, "attack: name -binary and -dir")
		os.Exit(2)
	}
	fmt.Printf("attack: %v, seed %d\n", *span, *seed)
	err := run(&n, *span, *golden, *seed, *only)
	n.kill()
	if err != nil {
		fmt.Fprintf(os.Stderr, "attack: %v (the broker's log: %s)\n", err, n.Log())
		os.Exit(1)
	}
	fmt.Println("ok")
}

func run(n *node, span time.Duration, golden string, seed uint64, only string) error {
	ctx, cancel := context.WithTimeout(context.Background(), span+4*time.Minute)
	defer cancel()
	requests, err := recorded(golden)
	if err != nil {
		return err
	}
	if err := n.start(ctx); err != nil {
		return err
	}
	if err := n.prepare(ctx); err != nil {
		return err
	}
	before, err := n.state(ctx)
	if err != nil {
		return err
	}
	load, stop := context.WithTimeout(ctx, span)
	defer stop()
	go func() { <-n.Ended(); stop() }()
	w := &world{node: n, requests: requests, only: strings.FieldsFunc(only, func(r rune) bool { return r == ',' })}
	var all sync.WaitGroup
	for i := range attacks {
		a := &attacks[i]
		if len(w.only) > 0 && !slices.Contains(w.only, a.name) {
			continue
		}
		for worker := range a.workers {
			all.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(i*1000+worker)))
				for load.Err() == nil {
					a.make(load, w, r, &a.count)
				}
			})
		}
	}
	watched := make(chan struct{})
	go func() { defer close(watched); n.watchMemory(load) }()
	var check checker
	checked := check.run(load, n)
	all.Wait()
	<-watched
	fmt.Printf("peak of memory %d MiB\n", n.peak>>20)
	for i := range attacks {
		if a := &attacks[i]; a.count.Load() > 0 {
			fmt.Printf("  %-12s %9d %s\n", a.name, a.count.Load(), a.what)
		}
	}
	return errors.Join(checked, judge(ctx, n, before, span))
}

// judge looks at what the attacks left.
func judge(ctx context.Context, n *node, before state, span time.Duration) error {
	var errs []error
	after, deadline := before, time.Now().Add(settleTime)
	for {
		var err error
		if after, err = n.state(ctx); err != nil {
			return errors.Join(err, n.Pause(ctx, 0))
		}
		if after.goroutines <= before.goroutines+leftOver && after.sockets <= before.sockets+leftOver {
			break
		}
		if time.Now().After(deadline) {
			errs = append(errs, fmt.Errorf("%v after the attacks, %d goroutines and %d sockets; before %d and %d",
				settleTime, after.goroutines, after.sockets, before.goroutines, before.sockets))
			break
		}
		if err := n.Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	fmt.Printf("goroutines %d, before %d; sockets %d, before %d\n",
		after.goroutines, before.goroutines, after.sockets, before.sockets)
	if n.peak > memoryLimit {
		errs = append(errs, fmt.Errorf("%d MiB of memory, more than %d", n.peak>>20, memoryLimit>>20))
	}
	for _, m := range []string{"millstream_connections_broken_total", "millstream_connections_refused_total",
		"millstream_denied_accesses_total", "millstream_limit_refusals_total", "millstream_request_memory_waits_total",
		"millstream_request_memory_slow_closed_total"} {
		v, err := n.Metric(ctx, m)
		if err != nil {
			return err
		}
		fmt.Printf("  %s %.0f\n", m, v)
	}
	panics, err := n.Metric(ctx, "millstream_request_panics_total")
	lines, with := n.Logged("panic")
	if err != nil || panics > 0 || len(with) > 0 {
		errs = append(errs, fmt.Errorf("%.0f panics, %v %.300q", panics, err, with))
	}
	if most := linesPerSecond * int(span/time.Second); lines > most {
		errs = append(errs, fmt.Errorf("%d lines of log, more than %d", lines, most))
	}
	return errors.Join(append(errs, n.finish(ctx))...)
}

// world is what attacks have.
type world struct {
	node     *node
	requests [][]byte // recorded, without their lengths
	only     []string
}

// attack is one way to be hostile.
type attack struct {
	name, what string
	workers    int
	make       func(ctx context.Context, w *world, r *rand.Rand, count *atomic.Int64)
	count      atomic.Int64
}

// recorded reads the requests of all keys and versions.
func recorded(dir string) (all [][]byte, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[1] != "request" {
				continue
			}
			b, err := hex.DecodeString(fields[3])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, b)
		}
	}
	if len(all) < 100 {
		return nil, fmt.Errorf("%d requests in %s", len(all), dir)
	}
	return all, nil
}

// framed puts the length in front.
func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, len(b)+4), uint32(len(b))), b...)
}
