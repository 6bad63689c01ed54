package streamstest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/topology"
)

// bare runs the operator alone. Time and order come from a few lines written here: partitions are
// merged by effective time, S is the least time of the partitions.
type bare struct {
	s      setup
	op     operator.Operator
	ctx    *operator.Context
	stores *streamstest.Stores
	parts  []barePart
	time   int64
	events int64 // twice the number of records processed
	said   []string
}

type barePart struct {
	max     int64
	records []operator.Record // with their effective time as StreamTime
	ended   bool
}

func newBare(t *testing.T, d *datadriven.TestData) engine {
	b := &bare{s: parseSetup(t, d), time: operator.NoTime, stores: streamstest.NewStores()}
	if b.s.join == nil {
		require.NoError(t, b.s.validate())
	}
	b.restart()
	for range b.s.partitions {
		b.parts = append(b.parts, barePart{max: operator.NoTime})
	}
	return b
}

// restart makes the operator, the first time or over what a former one has kept.
func (b *bare) restart() {
	if b.s.join != nil {
		b.op = join.New(*b.s.join, "rows", nil)()
	} else {
		b.op = b.s.steps()
	}
	b.ctx = operator.NewContext(operator.ContextOptions{Step: "agg", Stores: b.stores,
		Late: b.s.aggregate.Late, Reporter: b, StreamTime: b.time, EventTime: b.time,
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
}

// DeadLetter implements operator.Reporter.
func (b *bare) DeadLetter(_ *operator.Record, d operator.DeadLetter) {
	b.said = append(b.said, "DLQ "+d.Class)
}

// LateRecord implements operator.Reporter.
func (b *bare) LateRecord(_ *operator.Record, _ string, l operator.LateReport) {
	b.said = append(b.said, fmt.Sprintf("LATE %s S=%d", l.First, l.StreamTime))
}

// w returns the time of a partition.
func (b *bare) w(p *barePart) int64 {
	switch {
	case p.ended && b.s.closes:
		return operator.EndOfTime
	case p.max == operator.NoTime:
		return operator.NoTime
	}
	return p.max - b.s.disorder
}

func (b *bare) feed(t *testing.T, line string) []string {
	b.said = nil
	switch line {
	case "end":
		for i := range b.parts {
			b.parts[i].ended = true
		}
		return b.drain(t)
	case "restart":
		b.restart()
		return nil
	}
	side, partition, raw := parseLine(t, line)
	if side == "R" {
		if raw.Value == nil {
			require.NoError(t, b.stores.Store("rows").Delete(raw.Key))
		} else {
			require.NoError(t, b.stores.Store("rows").Put(raw.Key, raw.Value))
		}
		return nil
	}
	p := &b.parts[partition]
	p.max = max(p.max, raw.Timestamp)
	p.records = append(p.records, operator.Record{Key: raw.Key, Value: raw.Value, Raw: &raw,
		Timestamp: raw.Timestamp, StreamTime: max(raw.Timestamp, b.w(p))})
	slices.SortStableFunc(p.records, func(x, y operator.Record) int {
		return int(x.StreamTime - y.StreamTime)
	})
	return b.drain(t)
}

// drain processes what is known to be next, one record at a time.
func (b *bare) drain(t *testing.T) []string {
	var out []string
	ready := operator.EndOfTime
	waiting := false
	for i := range b.parts {
		if p := &b.parts[i]; !p.ended || b.s.closes {
			ready, waiting = min(ready, b.w(p)), true
		}
	}
	for {
		best := -1
		for i := range b.parts {
			r := b.parts[i].records
			if len(r) > 0 && (best < 0 || r[0].StreamTime < b.parts[best].records[0].StreamTime) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		head := b.parts[best].records[0]
		if waiting && head.StreamTime > ready {
			break
		}
		b.parts[best].records = b.parts[best].records[1:]
		b.time = max(b.time, head.StreamTime)
		head.StreamTime, head.Order = b.time, b.events
		b.events += 2
		if ok, _ := b.s.keep(&head); b.s.filtered && !ok {
			out = append(out, b.process(t)...)
			continue
		}
		out = append(out, b.process(t, head)...)
	}
	if waiting && ready > b.time {
		b.time = ready
		out = append(out, b.process(t)...)
	}
	return out
}

func (b *bare) process(t *testing.T, recs ...operator.Record) []string {
	b.said = nil
	var out operator.Batch
	in := operator.Batch{Records: recs, StreamTime: b.time,
		Steps: []operator.TimeStep{{Time: b.time, Order: b.events - 3, Event: len(recs) > 0}}}
	require.NoError(t, b.op.Process(b.ctx, &in, &out))
	var got []string
	for _, r := range out.Records {
		got = append(got, string(r.Value))
	}
	return append(got, b.said...)
}

// runner is a topology on its way: the driver, or workers.
type runner interface {
	feed(t *testing.T, topic string, r record.Record)
	end(t *testing.T)
	// restart ends what runs as a kill would and begins again at the last commit.
	restart(t *testing.T)
	// settle lets everything be processed and, where the way to run says so, crash or move.
	settle(t *testing.T)
	output(topic string) []streamstest.Record
}

// whole runs a topology and shows what comes out.
type whole struct {
	r    runner
	seen map[string]int
}

// newWhole makes an engine of a way to run topologies.
func newWhole(start func(*testing.T, *topology.Builder) runner,
) func(*testing.T, *datadriven.TestData) engine {
	return func(t *testing.T, data *datadriven.TestData) engine {
		return &whole{r: start(t, topologyOf(parseSetup(t, data))), seen: map[string]int{}}
	}
}

// topologyOf returns the topology of a case: step reads the sources in0, in1 … and the table.
func topologyOf(s setup) *topology.Builder {
	b := topology.NewBuilder(topology.Options{App: "golden", CloseAtEnd: s.closes,
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	var sources []string
	for p := range s.partitions { // a task reads one partition of every topic
		id := fmt.Sprintf("in%d", p)
		b.Source(id, id, topology.SourceOptions{
			Disorder: time.Duration(s.disorder) * time.Millisecond})
		sources = append(sources, id)
	}
	b.Merge("in", sources...)
	from := "in"
	if s.filtered {
		b.Filter("filtered", "in", s.keep)
		from = "filtered"
	}
	if s.join != nil {
		b.Table("table", "table", topology.TableOptions{})
		b.Join("step", from, "table", *s.join)
	} else {
		b.Process("step", []string{from}, topology.ProcessOptions{
			New: s.steps, Stores: s.stores(), Late: s.aggregate.Late})
	}
	b.Sink("out", "step", "out", topology.SinkOptions{})
	return b
}

func (w *whole) feed(t *testing.T, line string) []string {
	switch line {
	case "end":
		w.r.end(t)
	case "restart":
		w.r.restart(t)
	default:
		side, partition, raw := parseLine(t, line)
		topic := fmt.Sprintf("in%d", partition)
		if side == "R" {
			topic = "table"
		}
		w.r.feed(t, topic, raw)
	}
	return w.news(t)
}

// news lets everything be processed and returns what came out.
func (w *whole) news(t *testing.T) []string {
	w.r.settle(t)
	got := w.next("out", func(r streamstest.Record) string { return string(r.Value) })
	got = append(got, w.next("late", func(r streamstest.Record) string {
		window, _ := r.Header(operator.HeaderLateWindow)
		s, _ := r.Header(operator.HeaderLateStreamTime)
		return fmt.Sprintf("LATE %s S=%s", window, s)
	})...)
	return append(got, w.next("dlq", func(r streamstest.Record) string {
		class, _ := r.Header(operator.HeaderDLQClass)
		return "DLQ " + string(class)
	})...)
}

// next returns what is new in a topic.
func (w *whole) next(topic string, show func(streamstest.Record) string) []string {
	var got []string
	list := w.r.output(topic)
	for _, r := range list[w.seen[topic]:] {
		got = append(got, show(r))
	}
	w.seen[topic] = len(list)
	return got
}

// order runs "sNpM: ts ts …" lines through a merge of sources and shows ts@sNpM.
type order struct {
	r    runner
	seen int
}

func newOrder(start func(*testing.T, *topology.Builder) runner,
) func(*testing.T, *datadriven.TestData) engine {
	return func(t *testing.T, data *datadriven.TestData) engine {
		sources, partitions := 1, 1
		data.ScanArgs(t, "sources", &sources)
		data.ScanArgs(t, "partitions", &partitions)
		b := topology.NewBuilder(topology.Options{App: "golden"})
		var ids []string
		for s := range sources {
			for p := range partitions {
				id := fmt.Sprintf("s%dp%d", s, p)
				b.Source(id, id, topology.SourceOptions{})
				ids = append(ids, id)
			}
		}
		b.Merge("all", ids...)
		b.Sink("out", "all", "out", topology.SinkOptions{})
		return &order{r: start(t, b)}
	}
}

func (o *order) feed(t *testing.T, line string) []string {
	if line == "end" {
		o.r.end(t)
	} else {
		topic, list, _ := strings.Cut(line, ": ")
		for _, ts := range strings.Fields(list) {
			n, err := strconv.ParseInt(ts, 10, 64)
			require.NoError(t, err)
			o.r.feed(t, topic, record.Record{Timestamp: n, Value: []byte(ts + "@" + topic)})
		}
	}
	o.r.settle(t)
	var got []string
	list := o.r.output("out")
	for _, r := range list[o.seen:] {
		got = append(got, string(r.Value))
	}
	o.seen = len(list)
	return got
}
