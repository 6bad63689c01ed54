package task

import "github.com/millstream-io/millstream/streams/operator"

// sortBuffer holds the unprocessed records of a partition with disorder, smallest (eff, offset)
// first.
type sortBuffer struct {
	heap  []place
	slots []slot
	free  []int32
}

// place is an entry of the heap.
type place struct {
	eff, offset int64
	slot        int32
}

// slot is a record in the buffer.
type slot struct {
	held
	// max is the largest event time of the partition before this record was read.
	max int64
}

func (b *sortBuffer) len() int { return len(b.heap) }

func (p place) less(q place) bool {
	return p.eff < q.eff || p.eff == q.eff && p.offset < q.offset
}

// push adds a record; max is the largest event time before it.
func (b *sortBuffer) push(h held, max int64) {
	var at int32
	if n := len(b.free); n > 0 {
		at, b.free = b.free[n-1], b.free[:n-1]
		b.slots[at] = slot{h, max}
	} else {
		at = int32(len(b.slots))
		b.slots = append(b.slots, slot{h, max})
	}
	b.heap = append(b.heap, place{h.eff, h.rec.Raw.Offset, at})
	for i := len(b.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !b.heap[i].less(b.heap[up]) {
			break
		}
		b.heap[i], b.heap[up] = b.heap[up], b.heap[i]
		i = up
	}
}

// peek returns the smallest record, nil when empty. It is valid until push or pop.
func (b *sortBuffer) peek() *held {
	if len(b.heap) == 0 {
		return nil
	}
	return &b.slots[b.heap[0].slot].held
}

// pop removes the smallest record.
func (b *sortBuffer) pop() {
	at := b.heap[0].slot
	b.slots[at] = slot{}
	b.free = append(b.free, at)
	n := len(b.heap) - 1
	b.heap[0] = b.heap[n]
	b.heap = b.heap[:n]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < n; child++ {
			if b.heap[child].less(b.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		b.heap[i], b.heap[least] = b.heap[least], b.heap[i]
		i = least
	}
}

// latest returns the largest effective time in the buffer, NoTime when it is empty.
func (b *sortBuffer) latest() int64 {
	t := operator.NoTime
	for _, p := range b.heap {
		t = max(t, p.eff)
	}
	return t
}

// oldest returns the slot with the smallest offset, nil when empty.
func (b *sortBuffer) oldest() *slot {
	var first *slot
	for _, p := range b.heap {
		if s := &b.slots[p.slot]; first == nil || s.rec.Raw.Offset < first.rec.Raw.Offset {
			first = s
		}
	}
	return first
}

// firstOffset returns the smallest offset, fallback when empty.
func (b *sortBuffer) firstOffset(fallback int64) int64 {
	if s := b.oldest(); s != nil {
		return s.rec.Raw.Offset
	}
	return fallback
}
