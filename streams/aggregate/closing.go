package aggregate

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// closing tells which spans of which keys are due, in the order of (due, start, key). In the
// store, a key is only marked in a bucket of time in which something of it is due; a bucket is
// taken into memory when stream time reaches it. So a session that grows costs no mark per record,
// and what waits for the far future costs no memory.
type closing struct {
	marks state.Windows
	width int64 // of a bucket, in ms
	// dues calls add with what is due for a key between two times, both included.
	dues func(key []byte, from, to int64, add func(due, start int64)) error
	// buckets with marks, ascending; the first taken of them are in memory.
	buckets []int64
	taken   int
	front   dueHeap
	done    int64 // everything due up to this time was handled
}

// dueSpan is one thing that is due.
type dueSpan struct {
	due, start int64
	key        string
}

// before is the order in which things are due.
func (d *dueSpan) before(o *dueSpan) bool {
	return cmp.Or(cmp.Compare(d.due, o.due), cmp.Compare(d.start, o.start),
		cmp.Compare(d.key, o.key)) < 0
}

// dueHeap has the first of its elements in front. Those of container/heap would be allocated one by
// one.
type dueHeap []dueSpan

func (h *dueHeap) push(d dueSpan) {
	*h = append(*h, d)
	all := *h
	for i := len(all) - 1; i > 0; {
		up := (i - 1) / 2
		if !all[i].before(&all[up]) {
			return
		}
		all[i], all[up] = all[up], all[i]
		i = up
	}
}

func (h *dueHeap) pop() dueSpan {
	all := *h
	first, last := all[0], len(all)-1
	all[0], all[last] = all[last], dueSpan{}
	all = all[:last]
	*h = all
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if all[child].before(&all[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		all[i], all[least] = all[least], all[i]
		i = least
	}
}

// open reads the buckets of a restored task, in which everything due up to s was handled.
func (c *closing) open(marks state.Windows, width, s int64) error {
	c.marks, c.width, c.done = marks, max(1, width), s
	var err error
	if c.buckets, err = marks.Starts(); err != nil {
		return fmt.Errorf("list what is due: %w", err)
	}
	return nil
}

// mark says that the span of key that begins at start is due. What is due no more need not be
// taken back: whoever gets it has to look.
func (c *closing) mark(due, start int64, key []byte) error {
	at := due - floorMod(due, c.width)
	i, ok := slices.BinarySearch(c.buckets, at)
	if !ok {
		c.buckets = slices.Insert(c.buckets, i, at)
		if i < c.taken {
			c.taken++
		}
	}
	if i < c.taken {
		c.front.push(dueSpan{due, start, string(key)})
	}
	bucket := c.marks.Window(at)
	if _, ok, err := bucket.Get(key); ok || err != nil {
		return err
	}
	return bucket.Put(key, []byte{1})
}

// advance calls fn with everything due up to s, in order. fn may mark more.
func (c *closing) advance(s int64, fn func(d dueSpan) error) error {
	for {
		if c.taken < len(c.buckets) && c.buckets[c.taken] <= s &&
			(len(c.front) == 0 || c.front[0].due >= c.buckets[c.taken]) {
			if err := c.take(); err != nil {
				return err
			}
			continue
		}
		if len(c.front) == 0 || c.front[0].due > s {
			break
		}
		d := c.front.pop()
		for len(c.front) > 0 && c.front[0] == d {
			c.front.pop() // marked more than once
		}
		c.done = max(c.done, d.due)
		if err := fn(d); err != nil {
			return err
		}
	}
	c.done = s
	n := 0
	for n < c.taken && c.last(c.buckets[n]) <= s {
		if err := c.marks.Drop(c.buckets[n]); err != nil {
			return fmt.Errorf("drop what was due: %w", err)
		}
		n++
	}
	c.buckets, c.taken = slices.Delete(c.buckets, 0, n), c.taken-n
	return nil
}

// last returns the last time of a bucket.
func (c *closing) last(at int64) int64 {
	if at > operator.EndOfTime-c.width {
		return operator.EndOfTime
	}
	return at + c.width - 1
}

// take brings the next bucket into memory.
func (c *closing) take() error {
	at := c.buckets[c.taken]
	c.taken++
	var keys [][]byte
	err := c.marks.Window(at).Scan(nil, nil, func(key, _ []byte) error {
		keys = append(keys, bytes.Clone(key))
		return nil
	})
	if err != nil {
		return fmt.Errorf("scan what is due: %w", err)
	}
	from := at
	if c.done != operator.NoTime {
		from = max(from, c.done+1)
	}
	for _, key := range keys {
		err := c.dues(key, from, c.last(at), func(due, start int64) {
			c.front.push(dueSpan{due, start, string(key)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
