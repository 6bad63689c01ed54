package task

import (
	"cmp"
	"slices"

	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/operator"
)

// Decision says that a lane had no records for so long that the task went on without it: what
// follows in the lane counts as not before Time. Whether a lane is idle is told by a clock; the
// decision is written down, so that a replay needs no clock.
type Decision struct {
	// Source is the id of the source, Partition that of its topic.
	Source    string `json:"source"`
	Partition int32  `json:"partition"`
	// Writer is <sub>.<partition> of the writer in a repartition topic, "" for any other.
	Writer string `json:"writer,omitempty"`
	// At is the place in the lane: before the record at this offset, or of a repartition topic,
	// behind all records of the writer up to this sequence.
	At   int64 `json:"at"`
	Time int64 `json:"time"`
}

// quiet reports whether the lane is taken to be idle and has nothing that could be processed.
func (l *lane) quiet() bool { return l.idle && !l.ended && l.head() == nil }

// position is the place of a decision made now.
func (l *lane) position() int64 {
	if l.in.byWriter != nil {
		return l.seq
	}
	return l.in.next
}

// raise makes t the time of the lane, unless it is later already.
func (l *lane) raise(t int64) {
	if l.in.byWriter == nil {
		l.clock.Max = max(l.clock.Max, t+l.clock.Disorder)
		return
	}
	l.w, l.floor = max(l.w, t), max(l.floor, t)
	l.processed.max = max(l.processed.max, t)
}

// repeat applies the decisions of an earlier run that come before the place at.
func (l *lane) repeat(at int64) {
	for len(l.decisions) > 0 && l.decisions[0].At <= at {
		l.raise(l.decisions[0].Time)
		l.decisions = l.decisions[1:]
	}
}

// undecided is the time up to which quiet lanes hold up the task: that of the lanes which are not
// quiet. When all are, it is the last record that waits in a lane for its own disorder to pass; ok
// is false when there is none.
func (c *Core) undecided() (t int64, ok bool) {
	if c.waiting > 0 || !slices.ContainsFunc(c.lanes, (*lane).quiet) {
		return 0, false // nothing to decide: what waits in the lanes need not be looked at
	}
	last, active, quiet := operator.NoTime, false, false
	t = operator.EndOfTime
	for _, l := range c.lanes {
		switch h := l.head(); {
		case h != nil: // just after the last of its records, so that all of them can go on
			t, active = min(t, l.ahead()+1), true
		case l.quiet():
			quiet = true
			last = max(last, l.sorted.latest())
		default:
			if w, waits := l.time(c.closes); waits {
				t, active = min(t, w), true
			}
		}
	}
	if !active {
		t = last
	}
	return t, quiet && t != operator.NoTime && t != operator.EndOfTime
}

// ahead is the time of the lane behind all its records, the unprocessed ones included.
func (l *lane) ahead() int64 {
	if l.in.byWriter != nil {
		return l.w
	}
	clock, queue := l.clock, l.queue[l.first:]
	if l.next.ok {
		queue = queue[1:] // its first record is in the clock
	}
	var rec operator.Record
	for _, it := range queue {
		rec = operator.Record{}
		l.in.record(&rec, it.rec)
		if ts, err := eventtime.Extract(l.in.source.Timestamp, &rec); err == nil {
			clock.Observe(ts)
		}
	}
	return clock.W()
}

// Undecided reports whether Decide would let the task go on.
func (c *Core) Undecided() bool {
	t, ok := c.undecided()
	return ok && slices.ContainsFunc(c.lanes, func(l *lane) bool { return l.lags(t) })
}

// lags reports whether the lane is quiet and its time is before t.
func (l *lane) lags(t int64) bool {
	w, waits := l.time(false)
	return l.quiet() && waits && w < t
}

// Decide gives quiet lanes the time of the others, so that nobody waits for them. The caller
// commits the Core's snapshot and the decisions together before it runs the Core again: what
// follows from them then follows from the logs.
func (c *Core) Decide() (list []Decision) {
	t, ok := c.undecided()
	if !ok {
		return nil
	}
	for _, l := range c.lanes {
		if !l.lags(t) {
			continue
		}
		list = append(list, Decision{Source: l.in.source.ID, Partition: l.in.from.Partition,
			Writer: c.relative(l.writer), At: l.position(), Time: t})
		l.raise(t)
	}
	return list
}

// relative is the name of a writer without that of its pipeline, which a replay does not have.
func (c *Core) relative(writer string) string {
	if writer == "" {
		return ""
	}
	return writer[len(c.opts.Topology.App)+1:]
}

// repeatDecisions gives every lane the decisions an earlier run made about it.
func (c *Core) repeatDecisions() {
	for _, d := range c.opts.Decisions {
		for _, l := range c.lanes {
			if l.in.source.ID == d.Source && l.in.from.Partition == d.Partition &&
				c.relative(l.writer) == d.Writer {
				l.decisions = append(l.decisions, d)
			}
		}
	}
	for _, l := range c.lanes {
		slices.SortStableFunc(l.decisions, func(a, b Decision) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Time, b.Time))
		})
	}
}
