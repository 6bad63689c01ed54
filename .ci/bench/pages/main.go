// Pages keeps a supply of memory that is quick to use, while a measurement runs.
//
// On a virtual machine whose free memory goes back to the host, the first use of a page after that
// costs a fault in the host: 2 CPU seconds for each GB that is appended to a log, more than what
// the server itself takes, and in no order: one run meets such pages, the next does not. So Pages
// takes all free memory but a rest, uses it once, and gives it back bit by bit when the rest shrinks:
// what a server then gets was in use a moment ago. It ends when its standard input does.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	chunkBytes = 64 << 20
	tick       = 4 * time.Millisecond
)

func main() {
	low := flag.Int64("low", 250, "give back when less than this many MiB are free")
	high := flag.Int64("high", 500, "take when more than this many MiB are free")
	most := flag.Int64("most", 16_000, "hold at most so many MiB")
	flag.Parse()
	if err := run(*low<<20, *high<<20, *most<<20); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

// run holds memory until standard input ends. It says "ready" when it has taken what there was.
func run(low, high, most int64) error {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	var held [][]byte
	ready := false
	for {
		select {
		case <-ended:
			return nil
		default:
		}
		free, err := freeBytes()
		if err != nil {
			return err
		}
		switch {
		case free < low && len(held) > 0:
			if err := syscall.Munmap(held[len(held)-1]); err != nil {
				return fmt.Errorf("give back memory: %w", err)
			}
			held = held[:len(held)-1]
		case free > high && int64(len(held)+1)*chunkBytes <= most:
			b, err := take()
			if err != nil {
				return err
			}
			held = append(held, b)
		default:
			if !ready {
				fmt.Println("ready")
				ready = true
			}
			time.Sleep(tick)
		}
	}
}

// take maps memory and writes to each page of it.
func take() ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, chunkBytes, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("take memory: %w", err)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return b, nil
}

// freeBytes returns how much memory nobody uses, not even the page cache.
func freeBytes() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read how much memory is free: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "MemFree:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read how much memory is free: %w", err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("no MemFree in /proc/meminfo")
}
