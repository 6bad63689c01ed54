package task

import (
	"time"

	"github.com/millstream-io/millstream/streams/operator"
)

// Awaited is an input partition without a record to process that is the slowest of its task: when
// others have records, they wait for it.
type Awaited struct {
	Topic     string
	Partition int32
	// Writers of a repartition topic, as <sub>.<partition>, whose records are waited for.
	Writers []string
}

// Awaited tells which inputs are the slowest, and whether records wait for them.
func (c *Core) Awaited() (list []Awaited, held bool) {
	if c.waiting > 0 {
		return nil, false
	}
	least := operator.EndOfTime
	for _, l := range c.lanes {
		if h := l.head(); h != nil {
			least = min(least, h.eff)
		} else if t, waits := l.time(c.closes); waits {
			least = min(least, t)
		}
	}
	for _, l := range c.lanes {
		if t, waits := l.time(c.closes); l.head() != nil || l.quiet() || !waits || t > least {
			continue
		}
		if n := len(list); n == 0 || list[n-1].Topic != l.in.from.Topic {
			list = append(list, Awaited{Topic: l.in.from.Topic, Partition: l.in.from.Partition})
		}
		if l.writer != "" {
			last := &list[len(list)-1]
			last.Writers = append(last.Writers, c.relative(l.writer))
		}
	}
	return list, c.buffered.records > 0 && len(list) > 0
}

// reportAwaited adds to what an input's status tells whether it is waited for: only one that is
// read to its end is, any other is on its way.
func (t *loop) reportAwaited(list []InputStatus) (held bool) {
	core, ok := t.core.(*Core)
	if !ok {
		return false
	}
	awaited, held := core.Awaited()
	for _, a := range awaited {
		for i := range list {
			known, st := t.inputs[i], &list[i]
			if st.Topic == a.Topic && st.Partition == a.Partition {
				st.Writers = a.Writers
				st.Awaited = known.at >= known.end
			}
		}
	}
	return held
}

// seenAt is when the last record of an input came, in UTC; zero before the run began.
func (in *input) seenAt() time.Time {
	if in.seen.IsZero() {
		return in.seen
	}
	return in.seen.UTC()
}
