package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// watch keeps the largest resident memory of the server until stop is called.
func (b *bench) watch() (stop func()) {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			b.rss = max(b.rss, b.resident())
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// resident returns the resident memory of the server, 0 if it is not known.
func (b *bench) resident() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// cpu returns the CPU seconds that the server has used, 0 if not known.
func (b *bench) cpu() float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.pid))
	if err != nil {
		return 0
	}
	// Behind the name in brackets, utime and stime are the 12th and 13th, 100 to a second.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	user, _ := strconv.ParseFloat(string(fields[11]), 64)
	system, _ := strconv.ParseFloat(string(fields[12]), 64)
	return (user + system) / 100
}
