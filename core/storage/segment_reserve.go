package storage

import (
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/core/vfs"
)

// Disk space is reserved ahead of an active segment that grows, without changing its size: the
// file system then finds blocks for many writes at once, which takes a third off each write and
// a quarter off its sync, and the file lies in one piece. What is reserved at one time is as much
// as the segment has, so that small ones do not take more than twice their size, within these
// bounds, in bytes.
const (
	aheadLeast = 256 << 10
	aheadMost  = 16 << 20
	// aheadSpare is how many times as much has to be free on the disk.
	aheadSpare = 64
)

// reserve takes the disk space of a whole segment, where the file system can do that.
func (s *segment) reserve(n int64) error {
	p, ok := s.log.(vfs.Preallocator)
	if !ok {
		return nil
	}
	err := p.Preallocate(0, n)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	s.reserved = err == nil
	s.aheadOf = max(s.aheadOf, n)
	return err
}

// reserveAhead reserves space behind the end, if it can be had easily. Where it cannot, a write
// finds its blocks itself and tells what is wrong with the disk.
func (s *segment) reserveAhead() {
	n := min(max(s.mu.size, aheadLeast), aheadMost)
	s.aheadOf = s.mu.size + n
	p, ok := s.log.(vfs.Preallocator)
	if !ok {
		return
	}
	if free, err := s.fsys.Free(s.dir); err != nil || free/aheadSpare < uint64(n) {
		return
	}
	if p.Preallocate(s.mu.size, n) == nil {
		s.reserved = true
	}
}

// unreserveLocked gives back the disk space behind the end.
func (s *segment) unreserveLocked() error {
	if !s.reserved {
		return nil
	}
	s.reserved = false
	if err := s.log.Truncate(s.mu.size); err != nil {
		return fmt.Errorf("trim %s: %w", s.log.Name(), err)
	}
	return nil
}
