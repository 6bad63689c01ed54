// Wire measures what a server can do when the client costs little: it sends frames that were made
// beforehand and reads answers without decoding more than error codes.
//
//	go run ./.ci/bench/wire -bootstrap HOST:PORT -pid PID [-data DIR] [CASE...]
//
// It prints a row for each case: its figure, the CPU time and the largest resident memory of the
// server. Then it prints a line for each bar of the project, with the figure and "holds" or "missed",
// and exits with 1 where one is missed.
// Topics that leave syncing to the system have flush=os, which is Millstream's own config.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// bench is what the cases share.
type bench struct {
	addr  string
	pid   int
	data  string
	admin *kadm.Client
	ctx   context.Context
	// last is the topic created last.
	last string
	// rss is the largest resident memory seen of the server, bytes; loaded is that of the cases that
	// are full load.
	rss, loaded int64
	// bars are the lines about bars, in order.
	bars []string
	// missed counts bars that are missed.
	missed int
}

// result is one line of the output.
type result struct {
	figure float64
	unit   string
	note   string
}

// benchCase is one thing to measure.
type benchCase struct {
	name string
	// bar is the least figure that is wanted, or the largest with less; 0 for none.
	bar  float64
	less bool
	// scale says that memory is not held against the bar of full load.
	scale bool
	run   func(*bench) (result, error)
}

// loadedMB is the bar of resident memory under full load.
const loadedMB = 96

var cases = []benchCase{
	{"produce-1m", 1.6, false, false, func(b *bench) (result, error) {
		return b.produceLarge(1 << 20)
	}},
	{"produce-64k", 0, false, false, func(b *bench) (result, error) {
		return b.produceLarge(64 << 10)
	}},
	{"fetch-1m", 3.1, false, false, (*bench).fetchLarge},
	{"produce-1k", 110_000, false, false, func(b *bench) (result, error) {
		return b.produceSmall(8, 50, 1)
	}},
	{"durable-1", 0, false, false, func(b *bench) (result, error) { return b.durable(1, 1) }},
	{"durable-32", 25_000, false, false, func(b *bench) (result, error) { return b.durable(32, 1) }},
	{"durable-32-over-6", 0, false, false, func(b *bench) (result, error) {
		return b.durable(32, 6)
	}},
	{"partitions-10000", 1. / 3, false, true, (*bench).manyPartitions},
	{"cold-4gb", 2, true, true, (*bench).cold},
}

func main() {
	b := &bench{ctx: context.Background()}
	flag.StringVar(&b.addr, "bootstrap", "127.0.0.1:9092", "`host:port` of the server")
	flag.IntVar(&b.pid, "pid", 0, "process of the server, for its memory and CPU time")
	flag.StringVar(&b.data, "data", "", "data `folder` of the server: cold-4gb drops its files from the page cache")
	rounds := flag.Int("k", 1, "runs of each case; the median is printed")
	read := flag.String("read", "", "only read this `topic`; cold-4gb starts itself with it")
	records := flag.Int("records", 0, "records of each batch of that topic")
	flag.Parse()
	if *read != "" {
		if err := b.readAll(*read, *records); err != nil {
			fmt.Fprintln(os.Stderr, "wire:", err)
			os.Exit(2)
		}
		return
	}
	err := b.all(flag.Args(), *rounds)
	for _, line := range b.bars {
		fmt.Println(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(2)
	}
	if b.missed > 0 {
		os.Exit(1)
	}
}

// all runs the cases whose names match.
func (b *bench) all(patterns []string, rounds int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.DisableClientMetrics())
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer client.Close()
	b.admin = kadm.NewClient(client)
	stop := b.watch()
	defer stop()
	fmt.Println("| case | median | each run | server CPU-s | largest RSS so far |")
	fmt.Println("|---|--:|---|--:|--:|")
	for _, c := range cases {
		if !matches(patterns, c.name) {
			continue
		}
		var runs []result
		cpu := b.cpu()
		for range rounds {
			time.Sleep(time.Second) // files of the last topic are deleted meanwhile
			r, err := c.run(b)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			runs = append(runs, r)
		}
		figure := c.print(runs, (b.cpu()-cpu)/float64(rounds), b.rss)
		if !c.scale {
			b.loaded = b.rss
		}
		if c.bar != 0 {
			b.judge(c.name, figure, runs[0].unit, c.bar, c.less)
		}
	}
	if b.loaded > 0 {
		b.judge("rss-loaded", float64(b.loaded)/1e6, "MB", loadedMB, true)
	}
	return nil
}

// judge notes whether a bar holds.
func (b *bench) judge(name string, figure float64, unit string, bar float64, less bool) {
	sign, holds := ">=", figure >= bar
	if less {
		sign, holds = "<=", figure <= bar
	}
	verdict := "holds"
	if !holds {
		verdict = "missed"
		b.missed++
	}
	b.bars = append(b.bars, fmt.Sprintf("%-18s %10s %s, bar %s %s: %s", name, format(figure), unit,
		sign, format(bar), verdict))
}

// print writes the row of a case and returns the median.
func (c *benchCase) print(runs []result, cpu float64, rss int64) float64 {
	var each []string
	for _, r := range runs {
		each = append(each, format(r.figure))
	}
	sort.Slice(runs, func(i, j int) bool { return runs[i].figure < runs[j].figure })
	middle := runs[len(runs)/2]
	fmt.Printf("| %s | %s %s%s | %s | %.2f | %.0f MB |\n", c.name, format(middle.figure), middle.unit,
		middle.note, strings.Join(each, ", "), cpu, float64(rss)/1e6)
	return middle.figure
}

func format(f float64) string {
	if f >= 1000 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return len(patterns) == 0
}

// topic creates a topic and returns a function that deletes it.
func (b *bench) topic(name string, partitions int32, flush string) (remove func(), err error) {
	name += strconv.FormatInt(time.Now().UnixNano(), 36)
	large := "8388608"
	_, err = b.admin.CreateTopic(b.ctx, partitions, 1, map[string]*string{
		"flush": &flush, "max.message.bytes": &large, "file.delete.delay.ms": ptr("0"),
	}, name)
	if err != nil {
		return nil, fmt.Errorf("create a topic: %w", err)
	}
	b.last = name
	return func() { _, _ = b.admin.DeleteTopics(b.ctx, name) }, nil
}

func ptr(s string) *string { return &s }
