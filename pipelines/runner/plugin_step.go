package runner

import (
	"context"
	"fmt"
	"sync"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/streams/operator"
)

// pluginOperators opens operators of plugins for tasks and closes them when the pipeline stops.
type pluginOperators struct {
	ctx     context.Context // of the run; ends when the pipeline stops
	plugins map[string]*host.Plugin

	mu struct {
		sync.Mutex
		open []*host.Operator
		next int
	}
}

var _ pluginSteps = (*pluginOperators)(nil)

// factory makes one operator stream per task.
func (p *pluginOperators) factory(n *plan.Node) operator.Factory {
	return func() operator.Operator {
		step := pluginStep{owner: p, node: n}
		if n.Plugin.Timers {
			return &timedPluginStep{pluginStep: step, store: n.StreamID()}
		}
		return &step
	}
}

func (p *pluginOperators) open(n *plan.Node) (*host.Operator, error) {
	plugin, ok := p.plugins[n.Plugin.Alias]
	if !ok {
		return nil, fmt.Errorf("plugin %q is not running", n.Plugin.Alias)
	}
	p.mu.Lock()
	p.mu.next++
	task := fmt.Sprintf("%s/%d", n.ID, p.mu.next)
	p.mu.Unlock()
	op, err := plugin.Operator(p.ctx, host.OperatorOptions{
		Part: n.Plugin.Operator, Config: n.Plugin.Config.JSON(), Task: task,
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.mu.open = append(p.mu.open, op)
	p.mu.Unlock()
	return op, nil
}

// close drains all operators at once, so that a hung plugin costs one drain timeout and not one a
// task. Errors of a plugin that is gone say nothing new here.
func (p *pluginOperators) close() {
	p.mu.Lock()
	open := p.mu.open
	p.mu.open = nil
	p.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, op := range open {
		wg.Go(func() { _ = op.Close() })
	}
}

// pluginStep passes the batches of one task to a plugin's operator.
type pluginStep struct {
	owner *pluginOperators
	node  *plan.Node
	op    *host.Operator
	batch []host.Record
}

// Process implements operator.Operator: one exchange per batch, results in the order of the inputs.
func (s *pluginStep) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if len(in.Records) == 0 {
		return nil
	}
	if s.op == nil {
		op, err := s.owner.open(s.node)
		if err != nil {
			return err
		}
		s.op = op
	}
	s.batch = s.batch[:0]
	for i := range in.Records {
		s.batch = append(s.batch, hostRecord(&in.Records[i]))
	}
	results, err := s.op.Process(s.owner.ctx, s.batch)
	if err != nil {
		return err
	}
	for i := range in.Records {
		if err := s.take(ctx, &in.Records[i], i, results, out); err != nil {
			return err
		}
	}
	return nil
}

// take turns the answer for one input into records, or its error into a failure.
func (s *pluginStep) take(
	ctx *operator.Context, rec *operator.Record, i int, results *host.Results, out *operator.Batch,
) error {
	outputs, failed := results.Outputs(i), results.Err(i)
	for attempt := 1; failed != nil; attempt++ {
		if !failed.Retryable || attempt > s.node.Policy.RetryMax {
			return ctx.Fail(rec, classPlugin, &operator.Error{
				Class: failed.Class, Attempts: attempt, Err: failed})
		}
		wait := min(s.node.Policy.RetryFirst<<min(attempt-1, 20), s.node.Policy.RetryLongest)
		if err := pause(s.owner.ctx, wait); err != nil {
			return err
		}
		again, err := s.op.Process(s.owner.ctx, s.batch[i:i+1])
		if err != nil {
			return err
		}
		outputs, failed = again.Outputs(0), again.Err(0)
	}
	for j := range outputs {
		o := &outputs[j]
		r := *rec
		r.Key, r.Headers = o.Key, carriedHeaders(o.Headers, s.node.Carry)
		if o.Timestamp <= rec.StreamTime {
			r.Timestamp = o.Timestamp
		}
		r.SetValue(o.Value)
		out.Append(&r)
	}
	return nil
}

func hostRecord(r *operator.Record) host.Record {
	return host.Record{
		Record: record.Record{Offset: r.Offset(), Timestamp: r.Timestamp, Key: r.Key,
			Value: r.Value, Headers: r.Headers},
		Topic: r.Topic(), Partition: r.Partition(),
	}
}
