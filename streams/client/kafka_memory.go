package client

import (
	"sync"

	"github.com/millstream-io/millstream/core/record"
)

// runMemory is what the records of one run are in: the records, and a buffer for each batch that
// was compressed.
type runMemory struct {
	records []record.Record
	plain   [][]byte
	// at is the buffer of the next batch.
	at int
}

// next returns a buffer for the next batch, or nil.
func (m *runMemory) next() []byte {
	if m.at < len(m.plain) {
		return m.plain[m.at]
	}
	return nil
}

// used takes the buffer of a batch back; nil when the batch was not compressed.
func (m *runMemory) used(buf []byte) {
	switch {
	case buf == nil:
		return
	case m.at < len(m.plain):
		m.plain[m.at] = buf
	default:
		m.plain = append(m.plain, buf)
	}
	m.at++
}

const (
	// maxSpareRuns bounds how much memory waits for further runs; what is larger than maxSpareBytes
	// or has more records than maxSpareRecords is left to the collector.
	maxSpareRuns    = 4
	maxSpareBytes   = 4 << 20
	maxSpareRecords = 8 * runRecords
)

// spareMemory is memory of runs that nobody refers to. Any goroutine may use it.
type spareMemory struct {
	mu struct {
		sync.Mutex
		list []*runMemory
	}
}

func (s *spareMemory) take() *runMemory {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.mu.list)
	if n == 0 {
		return &runMemory{}
	}
	m := s.mu.list[n-1]
	s.mu.list = s.mu.list[:n-1]
	return m
}

func (s *spareMemory) put(m *runMemory) {
	bytes := 0
	for _, b := range m.plain {
		bytes += cap(b)
	}
	if bytes > maxSpareBytes || cap(m.records) > maxSpareRecords {
		return
	}
	clear(m.records) // what is not compressed is in the answer of the broker
	m.at = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.list) < maxSpareRuns {
		s.mu.list = append(s.mu.list, m)
	}
}
