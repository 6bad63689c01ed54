package compact

import (
	"math"

	"github.com/millstream-io/millstream/core/storage"
)

// plan says how far a log can be compacted and how much it needs it.
type plan struct {
	log        *storage.Log
	firstDirty int64 // compacted before up to here
	upTo       int64 // base of the first segment that must stay as it is
	// cleanBytes are in segments before firstDirty, dirtyBytes in those from there to upTo.
	cleanBytes, dirtyBytes int64
	// overdue says that max.compaction.lag.ms has passed for a dirty record.
	overdue bool
	// invalid says that the checkpoint names an offset that the log does not have.
	invalid bool
}

// ratio is the dirty part of what could be compacted, 0 to 1.
func (p *plan) ratio() float64 {
	if p.cleanBytes+p.dirtyBytes == 0 {
		return 0
	}
	return float64(p.dirtyBytes) / float64(p.cleanBytes+p.dirtyBytes)
}

// due reports whether the log is to be compacted now.
func (p *plan) due(c *storage.Config) bool {
	return p.overdue && p.dirtyBytes > 0 || p.ratio() > c.MinCleanableDirtyRatio
}

// planOf looks at a log's segments. It is Kafka's rule: never the active segment, nothing at or
// above the last stable offset, and nothing from the first dirty segment on that has a record
// younger than min.compaction.lag.ms.
func planOf(st *storage.CleanState, c *storage.Config, nowMS int64) plan {
	p := plan{firstDirty: st.CleanedOffset}
	if p.firstDirty < st.StartOffset || p.firstDirty > st.EndOffset {
		p.invalid = st.CleanedOffset >= 0
		p.firstDirty = st.StartOffset
	}
	active := st.Segments[len(st.Segments)-1]
	sealed := st.Segments[:len(st.Segments)-1]
	dirty := sealed[min(floor(sealed, p.firstDirty), len(sealed)):]
	if p.firstDirty >= active.Base {
		dirty = nil
	}
	bound := min(st.LastStableOffset, active.Base)
	if c.MinCompactionLagMS > 0 {
		for _, s := range dirty {
			if s.MaxTimestamp > nowMS-c.MinCompactionLagMS {
				bound = min(bound, s.Base)
				break
			}
		}
	}
	bound = max(bound, p.firstDirty)
	p.upTo = active.Base
	if i := floor(sealed, bound); bound < active.Base && i < len(sealed) {
		p.upTo = sealed[i].Base
	}
	for i, s := range sealed {
		if s.Base < p.firstDirty {
			p.cleanBytes += s.Size
		}
		if p.firstDirty < p.upTo && i >= floor(sealed, p.firstDirty) && s.Base < p.upTo {
			p.dirtyBytes += s.Size
		}
	}
	earliest := int64(math.MaxInt64)
	for _, s := range dirty {
		if s.FirstTimestamp > 0 {
			earliest = min(earliest, s.FirstTimestamp)
		}
	}
	p.overdue = earliest < nowMS-c.MaxCompactionLagMS
	return p
}

// floor returns the index of the segment that offset would be in: the last with Base <= offset, 0
// if it lies before all.
func floor(list []storage.SegmentInfo, offset int64) int {
	i := 0
	for i+1 < len(list) && list[i+1].Base <= offset {
		i++
	}
	return i
}

// group is a run of segments that become one: the indexes [first, first+n).
type group struct{ first, n int }

// groups puts neighbours together whose sum fits the limits of one segment, so that compaction
// again and again does not leave ever smaller ones.
func groups(list []storage.SegmentInfo, c *storage.Config) []group {
	var all []group
	for i := 0; i < len(list); {
		g := group{first: i, n: 1}
		size, offsets, times := list[i].Size, list[i].OffsetEntries, list[i].TimeEntries
		for i++; i < len(list); i++ {
			s := &list[i]
			size, offsets, times = size+s.Size, offsets+s.OffsetEntries, times+s.TimeEntries
			if size > c.SegmentBytes || max(offsets, times) > int64(c.SegmentIndexBytes) ||
				s.Size > 0 && s.End-1-list[g.first].Base > math.MaxInt32 {
				break
			}
			g.n++
		}
		all = append(all, g)
	}
	return all
}
