package fsck

import (
	"encoding/binary"
	"slices"
)

// aborted is an entry of a .txnindex: a transaction whose abort marker is in the segment.
type aborted struct {
	producerID, firstOffset, lastOffset, lastStableOffset int64
}

// txnIndex is a .txnindex. There is no file while there is nothing to put into it.
type txnIndex struct {
	index
	// want are the entries that the log asks for.
	want []aborted
	// vague are the offsets of abort markers whose transaction began in a part of the log that is
	// gone: they may have an entry or not.
	vague []int64
}

func (x *txnIndex) load(s *segment) {
	x.do = doRebuildAborts
	x.index.load(s, suffixTxnIndex, txnEntrySize, false)
	x.size = int64(len(x.data))
}

func (x *txnIndex) entry() aborted {
	field := func(at int) int64 { return int64(binary.BigEndian.Uint64(x.data[at:])) }
	return aborted{field(2), field(10), field(18), field(26)}
}

func (x *txnIndex) finish(s *segment) {
	last := s.base - 1
	for ; len(x.data) > 0; x.data = x.data[txnEntrySize:] {
		at, a := x.position(), x.entry()
		if version := binary.BigEndian.Uint16(x.data); version != 0 {
			x.wrong(s, at, "entry has version %d, want 0", version)
			continue
		}
		if a.lastOffset <= last || a.firstOffset < 0 || a.firstOffset >= a.lastOffset {
			x.wrong(s, at, "entry of offsets %d to %d, after one that ends at %d", a.firstOffset,
				a.lastOffset, last)
			continue
		}
		last = a.lastOffset
		x.compare(s, at, a)
	}
	for _, a := range x.want {
		x.wrong(s, -1, "has no entry for the abort of producer %d at offset %d", a.producerID,
			a.lastOffset)
	}
}

// compare looks for the entry that the log asks for.
func (x *txnIndex) compare(s *segment, at int64, a aborted) {
	i := slices.IndexFunc(x.want, func(w aborted) bool { return w.lastOffset == a.lastOffset })
	if i < 0 {
		// Compaction removes markers, and what was before the log's start is not known.
		if !slices.Contains(x.vague, a.lastOffset) && !s.compacted(a.lastOffset) {
			x.wrong(s, at, "entry of an abort at offset %d, where none is", a.lastOffset)
		}
		return
	}
	want := x.want[i]
	x.want = slices.Delete(x.want, i, i+1)
	if !s.producers.complete {
		want.lastStableOffset = a.lastStableOffset // other transactions may have begun earlier
	}
	if a != want {
		x.wrong(s, at, "entry of producer %d, offsets %d to %d, last stable offset %d; the log has "+
			"producer %d, %d to %d, %d", a.producerID, a.firstOffset, a.lastOffset,
			a.lastStableOffset, want.producerID, want.firstOffset, want.lastOffset,
			want.lastStableOffset)
	}
}
