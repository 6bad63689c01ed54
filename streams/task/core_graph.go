package task

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// nodeState is a step or sink of the task.
type nodeState struct {
	spec *topology.Node
	op   operator.Operator
	// inPlace is op when it may work on its input: it has one input that nobody else reads.
	inPlace operator.InPlace
	ctx     *operator.Context
	inputs  []port
	scratch operator.Batch // the input, when it is copied
	own     []operator.Batch
	// outs are the outputs of the current run: own, or the input of a step working in place.
	outs []*operator.Batch
	// partitions of the sink's topic.
	partitions int32
	// routes are the partitions of the topics that records have named.
	routes map[string]int32
	// tapIn and tapOut are where others may look at what comes in and goes out.
	tapIn, tapOut *TapPoint
	told          told // what the readers of a repartition topic know
}

// port is where a node reads.
type port struct {
	source *sourceState
	node   *nodeState
	output int
	shared bool // other nodes read it too
}

// told is the last watermark written to a repartition topic.
type told struct {
	W     int64 `json:"w"`
	Ended bool  `json:"ended,omitempty"`
	Idle  bool  `json:"idle,omitempty"`
}

func (p port) batch() *operator.Batch {
	if p.source != nil {
		return &p.source.batch
	}
	return p.node.outs[p.output]
}

// makeSteps makes the operators and their contexts.
func (c *Core) makeSteps() error {
	sub := c.opts.Sub
	var faults []error
	context := func(o operator.ContextOptions, kind string, stores ...operator.StoreSpec,
	) *operator.Context {
		id := o.Step
		o.Step = c.stepName(id)
		o.Stores, o.Reporter, o.StreamTime = c.opts.Stores, &c.out, c.now
		o.EventTime = c.eventTime
		o.Stats = &operator.Stats{}
		for _, counts := range c.counts {
			if counts.Step == id {
				o.Stats.Restore(counts)
			}
		}
		one := StepStats{Step: id, Kind: kind, Stats: o.Stats, began: o.Stats.Counts(id)}
		for _, s := range stores {
			one.Stores = append(one.Stores, s.Name)
		}
		c.stats = append(c.stats, one)
		for _, topic := range []string{o.OnError.DeadLetterTopic, o.Late.Topic} {
			if topic != "" && c.partitionsOf(topic, 0) <= 0 {
				faults = append(faults, fmt.Errorf("step %s writes to topic %q, "+
					"which does not exist", o.Step, topic))
			}
		}
		return operator.NewContext(o)
	}
	for _, s := range c.sources {
		s.ctx = context(operator.ContextOptions{Step: s.spec.ID, OnError: s.spec.OnError}, "source")
	}
	tables := map[string]*operator.Context{}
	for i := range sub.Tables {
		t := &sub.Tables[i]
		tables[t.ID] = context(operator.ContextOptions{Step: t.ID, OnError: t.OnError}, "table",
			operator.StoreSpec{Name: t.ID})
	}
	for _, in := range c.inputs {
		if in.table != nil {
			in.ctx, in.store = tables[in.table.ID], c.opts.Stores.Store(in.table.ID)
			continue
		}
		for _, s := range c.sources {
			if s.spec == in.source {
				in.ctx = s.ctx
			}
		}
	}
	readers := map[topology.Port]int{}
	for i := range sub.Nodes {
		for _, p := range sub.Nodes[i].Inputs {
			readers[p]++
		}
	}
	for i := range sub.Nodes {
		n := c.makeNode(&sub.Nodes[i], readers)
		n.ctx = context(operator.ContextOptions{Step: n.spec.ID, OnError: n.spec.OnError,
			Late: n.spec.Late, Outputs: n.spec.Outputs}, n.spec.Kind, n.spec.Stores...)
		if s := n.spec.Sink; s != nil && s.TopicOf == nil {
			if n.partitions = c.partitionsOf(s.Topic, s.Partitions); n.partitions <= 0 {
				faults = append(faults, fmt.Errorf("step %s writes to topic %q, "+
					"which does not exist", n.spec.ID, s.Topic))
			}
		}
	}
	return errors.Join(faults...)
}

// stepName is how dead letters and errors call a step: a part of one speaks for the whole.
func (c *Core) stepName(id string) string {
	if name := c.opts.Topology.StepName; name != nil {
		return name(id)
	}
	name, _, _ := strings.Cut(id, ":")
	return name
}

// makeNode makes a node behind those made before it.
func (c *Core) makeNode(spec *topology.Node, readers map[topology.Port]int) *nodeState {
	n := &nodeState{spec: spec, told: told{W: operator.NoTime}}
	n.tapIn, n.tapOut = c.opts.taps.of(spec.ID)
	for _, p := range spec.Inputs {
		x := port{output: p.Output, shared: readers[p] > 1}
		if p.Source >= 0 {
			x.source = c.sources[p.Source]
		} else {
			x.node = c.nodes[p.Node]
		}
		n.inputs = append(n.inputs, x)
	}
	n.own = make([]operator.Batch, max(1, len(spec.Outputs)))
	n.outs = make([]*operator.Batch, len(n.own))
	for i := range n.own {
		n.outs[i] = &n.own[i]
	}
	if spec.Sink == nil {
		n.op = spec.New()
		n.inPlace, _ = n.op.(operator.InPlace)
	} else if t, ok := c.out.told[spec.Sink.Topic]; ok {
		n.told = t
	}
	c.nodes = append(c.nodes, n)
	return n
}

// partitionsOf returns the number of partitions of a topic the task writes to.
func (c *Core) partitionsOf(topic string, planned int32) int32 {
	if c.opts.Partitions == nil {
		if planned <= 0 {
			return 1
		}
		return planned
	}
	if n := c.opts.Partitions(topic); n > 0 {
		return n
	}
	return 0
}

// runSteps takes the batches of the sources through all steps, upstream first.
func (c *Core) runSteps() error {
	s := c.now
	for _, src := range c.sources {
		src.ctx.Stats().In.Add(src.taken)
		src.ctx.Stats().Out.Add(int64(len(src.batch.Records)))
		src.taken = 0
		if !src.spec.Repartition() {
			src.tap.offer(c.name, src.batch.Records)
		}
	}
	measure := c.opts.Clock != nil && c.runs%busySample == 0
	c.runs++
	var at time.Time
	if measure {
		at = c.opts.Clock()
	}
	for _, n := range c.nodes {
		if err := c.runNode(n, s); err != nil {
			return err
		}
		if measure {
			now := c.opts.Clock()
			n.ctx.Stats().Busy.Add(busySample * int64(now.Sub(at)))
			at = now
		}
	}
	c.forget()
	return nil
}

// forget lets go of what batches of earlier runs left in those of this one.
func (c *Core) forget() {
	for _, s := range c.sources {
		s.batch.Forget()
	}
	for _, n := range c.nodes {
		n.scratch.Forget()
		for i := range n.own {
			n.own[i].Forget()
		}
	}
}

// busySample: one run in so many is measured. A reading of the clock per step and run would cost as
// much as a cheap step does for a small batch.
const busySample = 64

// runNode runs one step or sink; s is the time of the task.
func (c *Core) runNode(n *nodeState, s int64) error {
	in, own := n.input()
	in.StreamTime, in.Steps, in.Wall = s, c.steps, c.wall
	stats := n.ctx.Stats()
	stats.In.Add(int64(len(in.Records)))
	n.tapIn.offer(c.name, in.Records)
	if n.spec.Sink != nil {
		written, err := c.out.write(n, in)
		stats.Out.Add(int64(written))
		return err
	}
	if err := n.run(in, own); err != nil {
		return fmt.Errorf("run step %s of task %s: %w", n.spec.ID, c.writer, err)
	}
	for _, out := range n.outs {
		stats.Out.Add(int64(len(out.Records)))
		n.tapOut.offer(c.name, out.Records)
	}
	return nil
}

// run processes one batch. own tells that nobody else reads it.
func (n *nodeState) run(in *operator.Batch, own bool) error {
	if n.inPlace != nil && own {
		n.outs[0] = in
		return n.inPlace.ProcessInPlace(n.ctx, in)
	}
	for i := range n.own {
		n.own[i].Reset()
		n.outs[i] = &n.own[i]
	}
	n.ctx.SetOutputs(n.outs)
	return n.op.Process(n.ctx, in, n.outs[0])
}

// input returns the batch a node reads. own tells that the node may change it.
func (n *nodeState) input() (in *operator.Batch, own bool) {
	if len(n.inputs) == 1 && !n.inputs[0].shared {
		return n.inputs[0].batch(), true
	}
	n.scratch.Reset()
	if len(n.inputs) == 1 {
		n.scratch.Records = append(n.scratch.Records, n.inputs[0].batch().Records...)
	} else {
		n.merge()
	}
	for i := range n.scratch.Records {
		n.scratch.Records[i].Shared = true
	}
	return &n.scratch, true
}

// merge copies all inputs into scratch in the order of events; ties keep the order of inputs. Each
// record is marked with the input it came by.
func (n *nodeState) merge() {
	heads := make([][]operator.Record, len(n.inputs))
	for i := range n.inputs {
		heads[i] = n.inputs[i].batch().Records
	}
	for {
		best := -1
		for i, h := range heads {
			if len(h) == 0 {
				continue
			}
			if best < 0 || before(&h[0], &heads[best][0]) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		n.scratch.Append(&heads[best][0])
		n.scratch.Records[len(n.scratch.Records)-1].Input = int32(best)
		heads[best] = heads[best][1:]
	}
}

// before reports whether a was caused earlier than b.
func before(a, b *operator.Record) bool {
	return a.Order < b.Order || a.Order == b.Order && a.StreamTime < b.StreamTime
}
