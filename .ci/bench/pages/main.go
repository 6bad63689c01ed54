// Pages keeps memory quick to use while a measurement runs.
//
// On a virtual machine whose kernel reports free memory to the host (free page reporting), the
// first use of a page after that costs a fault in the host: 2 CPU seconds for each GB that is
// appended to a log, more than what the server itself takes, and in no order: one run meets such
// pages, the next does not. The kernel reports whole free blocks of 2 MiB. So Pages uses all free
// memory once and gives it back but for one page of each such block, of which none is wholly free
// then. It holds them until its standard input ends.
//
// It wants the right to read physical page numbers (root); without, it takes its memory for
// contiguous.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	chunkBytes = 64 << 20
	// blockPages is how many pages have a block that the kernel reports.
	blockPages = 512
)

func main() {
	low := flag.Int64("low", 300, "leave so many MiB free while taking memory")
	flag.Parse()
	if err := run(*low << 20); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

// run holds pages until standard input ends. It says "ready" when it has them.
func run(low int64) error {
	chunks, err := takeAll(low)
	if err != nil {
		return err
	}
	held, seen := 0, make(map[uint64]bool)
	for _, c := range chunks {
		n, err := thin(c, seen)
		if err != nil {
			return err
		}
		held += n
	}
	fmt.Printf("ready, %d MiB used once, %d pages held\n", len(chunks)*chunkBytes>>20, held)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// takeAll takes all free memory but low bytes, and writes to each page of it.
func takeAll(low int64) ([][]byte, error) {
	var chunks [][]byte
	for {
		free, err := freeBytes()
		if err != nil {
			return nil, err
		}
		if free < low+chunkBytes {
			return chunks, nil
		}
		b, err := take()
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, b)
	}
}

// take maps memory and writes to each page of it.
func take() ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, chunkBytes, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("take memory: %w", err)
	}
	// A huge page is given back as a whole or not at all.
	_ = syscall.Madvise(b, syscall.MADV_NOHUGEPAGE) // not there: there are no huge pages
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return b, nil
}

// thin gives back the pages of b but for the first of each block that is not in seen, and returns
// how many it kept.
func thin(b []byte, seen map[uint64]bool) (kept int, err error) {
	numbers, err := pageNumbers(b)
	if err != nil {
		return 0, err
	}
	size, from := os.Getpagesize(), 0
	for i, number := range numbers {
		block := number / blockPages
		if seen[block] {
			continue
		}
		seen[block] = true
		kept++
		if err := giveBack(b[from*size : i*size]); err != nil {
			return kept, err
		}
		from = i + 1
	}
	return kept, giveBack(b[from*size:])
}

func giveBack(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := syscall.Madvise(b, syscall.MADV_DONTNEED); err != nil {
		return fmt.Errorf("give back memory: %w", err)
	}
	return nil
}

// contiguous is the page number that the next page gets where the kernel does not tell.
var contiguous uint64

// pageNumbers returns the physical page numbers of b.
func pageNumbers(b []byte) ([]uint64, error) {
	const present, mask = 1 << 63, 1<<55 - 1
	file, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, fmt.Errorf("read page numbers: %w", err)
	}
	defer file.Close()
	numbers := make([]uint64, len(b)/os.Getpagesize())
	raw := make([]byte, 8*len(numbers))
	at := address(b) / int64(os.Getpagesize()) * 8
	if _, err := file.ReadAt(raw, at); err != nil {
		return nil, fmt.Errorf("read page numbers: %w", err)
	}
	for i := range numbers {
		entry := binary.NativeEndian.Uint64(raw[8*i:])
		if numbers[i] = entry & mask; entry&present == 0 || numbers[i] == 0 {
			numbers[i] = contiguous
		}
		contiguous++
	}
	return numbers, nil
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
