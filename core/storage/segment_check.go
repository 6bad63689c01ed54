package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A fetch sends bytes from the file to the socket without looking at them. So whoever first reads a
// part of a file that this process has not written looks at it: from then on its pages are in the
// cache, and the bytes are known to be right. What rots on the disk later is found by the scrub.

// checkedSpans says which bytes of a segment's file are known to be whole, intact batches.
type checkedSpans struct {
	// from is where the bytes begin that this process has written, or has read in a recovery: they
	// are known. 0 in most segments.
	from atomic.Int64

	mu    sync.Mutex
	spans []byteSpan // known ones before from, in order, none touching another
	bad   []badSpan  // what must not be served, in order
}

// byteSpan is a run of bytes of a file.
type byteSpan struct{ pos, end int64 }

// badSpan is a batch that is damaged, and how.
type badSpan struct {
	byteSpan
	err error
}

// maxCheckedSpans bounds what is remembered of a file that is read here and there; what is
// forgotten is looked at again.
const maxCheckedSpans = 256

// has reports whether all of the bytes are known. The caller holds mu.
func (c *checkedSpans) has(b byteSpan) bool {
	i, _ := slices.BinarySearchFunc(c.spans, b.pos, func(s byteSpan, pos int64) int {
		if s.end <= pos {
			return -1
		}
		return 1
	})
	return i < len(c.spans) && c.spans[i].pos <= b.pos && b.end <= c.spans[i].end
}

// add notes that bytes are known. The caller holds mu.
func (c *checkedSpans) add(b byteSpan) {
	if b.pos == b.end {
		return
	}
	i := 0
	for i < len(c.spans) && c.spans[i].end < b.pos {
		i++
	}
	j := i
	for ; j < len(c.spans) && c.spans[j].pos <= b.end; j++ {
		b = byteSpan{min(b.pos, c.spans[j].pos), max(b.end, c.spans[j].end)}
	}
	c.spans = slices.Replace(c.spans, i, j, b)
	if len(c.spans) > maxCheckedSpans {
		c.spans = slices.Delete(c.spans, 0, 1)
	}
}

// cut forgets what was behind size: what comes there is written by this process.
func (c *checkedSpans) cut(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from.Store(min(c.from.Load(), size))
	c.spans, c.bad = nil, nil
}

// overlap returns the first damaged batch that touches the bytes. The caller holds mu.
func (c *checkedSpans) overlap(b byteSpan) (badSpan, bool) {
	for _, d := range c.bad {
		if d.pos < b.end && b.pos < d.end {
			return d, true
		}
	}
	return badSpan{}, false
}

// damaged notes a damaged batch; false if it is known. The caller holds mu.
func (c *checkedSpans) damaged(d badSpan) bool {
	if _, known := c.overlap(d.byteSpan); known {
		return false
	}
	c.bad = append(c.bad, d)
	slices.SortFunc(c.bad, func(a, b badSpan) int { return int(a.pos - b.pos) })
	return true
}

var checkBuffers = sync.Pool{New: func() any { b := make([]byte, recoveryBuffer); return &b }}

// intact shortens sp to the batches at its head that are intact, and fails if its first one is not.
func (l *Log) intact(s *segment, sp span) (span, error) {
	c := &s.checks
	b := byteSpan{sp.pos, sp.pos + sp.size}
	if b.pos >= c.from.Load() {
		return sp, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d, known := c.overlap(b)
	if !known && c.has(b) {
		return sp, nil
	}
	if !known {
		var err error
		if d, known, err = s.firstDamage(b, l.checkOrder(s), nil); err != nil {
			return span{}, err
		}
		if known {
			l.foundDamageLocked(s, d)
			b.end = max(d.pos, b.pos)
		}
		c.add(b)
	}
	if !known {
		return sp, nil
	}
	if d.pos <= sp.pos {
		return span{}, d.err
	}
	// What is before the damage is served; the header walk tells which offset that ends at.
	lim := readLimits{maxBytes: d.pos - sp.pos, upTo: 1<<63 - 1, minOne: true}
	return s.find(sp.first, lim)
}

// checkOrder returns the offset that a batch at the end of s must stay below: the next segment's.
func (l *Log) checkOrder(s *segment) int64 {
	if next, ok := l.baseAfter(s.base); ok {
		return next
	}
	return 1<<63 - 1
}

// firstDamage reads whole batches and returns the first one that is not intact, whose offsets do
// not fit to what follows, or from limit on. pause is called with each number of bytes read.
func (s *segment) firstDamage(b byteSpan, limit int64, pause func(int64) error,
) (d badSpan, found bool, err error) {
	buf := checkBuffers.Get().(*[]byte)
	defer checkBuffers.Put(buf)
	size := s.state().size
	scan := batchScan{file: s.log, size: size, buf: *buf, pos: b.pos}
	next, last := s.base, b.pos
	for scan.pos < b.end {
		var h batchHeader
		at := scan.pos
		_, err := scan.next(&h, next)
		if err == nil && h.nextOffset() > limit {
			err = fmt.Errorf("%w: offset %d, but the next segment begins at %d", errTorn, h.lastOffset(),
				limit)
		}
		if errors.Is(err, errTorn) {
			return s.damage(byteSpan{at, max(at+1, min(at+h.size, b.end))}, next, err), true, nil
		}
		if err != nil {
			return badSpan{}, false, fmt.Errorf("check %s at %d: %w", s.log.Name(), at, err)
		}
		next, last = h.nextOffset(), at
		if pause != nil {
			if err := pause(h.size); err != nil {
				return badSpan{}, false, err
			}
		}
	}
	if scan.pos >= size || scan.pos == b.pos {
		return badSpan{}, false, nil
	}
	w := newHeaderWalk(s.log, scan.pos, size, next)
	defer w.close()
	var h batchHeader
	if _, err := w.next(&h); errors.Is(err, errTorn) {
		// Which of the two is wrong is not known: the offset of a batch is under no checksum.
		return s.damage(byteSpan{last, scan.pos}, next, err), true, nil
	}
	return badSpan{}, false, nil
}

func (s *segment) damage(b byteSpan, next int64, err error) badSpan {
	return badSpan{b, fmt.Errorf("%w: %s at position %d, at or after offset %d: %w", ErrCorrupt,
		s.log.Name(), b.pos, next, err)}
}

// foundDamageLocked remembers damage and tells the operator. The caller holds s.checks.mu.
func (l *Log) foundDamageLocked(s *segment, d badSpan) {
	if !s.checks.damaged(d) {
		return
	}
	l.owner.counters().Damages.Add(1)
	l.logger.Error("damaged batch found, it is not served: restore the file from a backup, or "+
		"delete the records before and with it", "partition", l.tp, "file", s.log.Name(),
		"position", d.pos, "error", d.err)
}
