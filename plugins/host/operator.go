package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// OperatorOptions say which operator to run.
type OperatorOptions struct {
	Part   string // name of the operator; "" = the only one of the plugin
	Config []byte // JSON
	Task   string // names the task in logs
}

// Operator is an operator of a plugin at work for one task. Its methods may be called concurrently;
// batches are processed in the order of their Submit.
type Operator struct {
	ex *exchange
}

// Operator opens an operator and waits until it is ready. The error is ErrFailed when the plugin
// refuses the configuration or has no such part.
func (p *Plugin) Operator(ctx context.Context, o OperatorOptions) (*Operator, error) {
	op := &Operator{ex: &exchange{
		p: p, part: o.Part, task: o.Task, kind: "operator", hang: p.options.HangTimeout,
		connect: func(ctx context.Context, c pluginpb.PluginClient) (clientStream, error) {
			return c.Operate(ctx)
		},
		open: func() *pluginpb.Open { return &pluginpb.Open{Config: o.Config} },
	}}
	if err := p.begin(ctx, op, op.ex); err != nil {
		return nil, err
	}
	return op, nil
}

// begin starts an exchange and waits until it is open.
func (p *Plugin) begin(ctx context.Context, c interface{ Close() error }, e *exchange) error {
	if err := p.register(c); err != nil {
		return err
	}
	e.start()
	if err := e.ready(ctx); err != nil {
		e.cancel(err)
		<-e.done
		p.unregister(c)
		return err
	}
	return nil
}

// Process runs a batch and waits for its results: for each input its outputs or its error. An
// error of Process itself is final for the operator, but for the end of ctx. The plugin sees
// the batch in frames of at most 1000 records; batch may be reused when Process returns.
func (o *Operator) Process(ctx context.Context, batch []Record) (*Results, error) {
	p, err := o.Submit(ctx, batch)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Submit queues a batch and returns without waiting for its results, so that the next one can be
// prepared. It waits while 32 frames are unanswered. batch may be reused when Submit returns.
func (o *Operator) Submit(ctx context.Context, batch []Record) (*Pending, error) {
	return o.ex.submitBatch(ctx, batch, nil)
}

// Close drains the operator, at most 5 seconds, and ends its stream. The process goes on.
func (o *Operator) Close() error {
	defer o.ex.p.unregister(o)
	return o.ex.drain()
}

// Pending is a batch on its way.
type Pending struct {
	ex    *exchange
	parts []part
}

// part is one frame of a batch, or the results of a record that does not fit in one.
type part struct {
	call    *call
	results *Results
}

// submitBatch queues a batch in frames. next says how far a frame of a sink goes.
func (e *exchange) submitBatch(ctx context.Context, batch []Record,
	next func([]Record) []TopicOffset) (*Pending, error) {
	p := &Pending{ex: e}
	for len(batch) > 0 {
		n, size := 0, pluginpb.FrameHeaderBytes
		for n < len(batch) && n < frameRecords {
			s := pluginpb.SizeBound(&batch[n])
			if n > 0 && size+s > frameBytes {
				break
			}
			n, size = n+1, size+s
		}
		if size > pluginpb.MaxFrameBytes { // one record alone
			p.parts = append(p.parts, part{results: failed(pluginpb.ClassTooLarge, fmt.Sprintf(
				"a record of %d bytes does not fit in a frame of %d", size, pluginpb.MaxFrameBytes))})
		} else {
			var to []TopicOffset
			if next != nil {
				to = next(batch[:n])
			}
			c, err := e.submit(ctx, pluginpb.Encode(batch[:n]), n, to)
			if err != nil {
				return nil, err
			}
			p.parts = append(p.parts, part{call: c})
		}
		batch = batch[n:]
	}
	return p, nil
}

// Wait returns the results. When ctx ends first, the batch goes on and its results are lost.
func (p *Pending) Wait(ctx context.Context) (*Results, error) {
	all := &Results{}
	for i := range p.parts {
		r := p.parts[i].results
		if c := p.parts[i].call; c != nil {
			select {
			case <-c.done:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			var err error
			if r, err = p.ex.resultsOf(c); err != nil {
				return nil, err
			}
		}
		if len(p.parts) == 1 {
			return r, nil
		}
		all.add(r)
	}
	return all, nil
}

// resultsOf checks the answer of a call that is done. A wrong one ends the exchange.
func (e *exchange) resultsOf(c *call) (*Results, error) {
	switch {
	case c.err != nil:
		return nil, c.err
	case c.results != nil:
		return c.results, nil
	}
	r, err := c.answer.results(c.records)
	if errors.Is(err, ErrProtocol) {
		err = fmt.Errorf("plugin %q, part %q: %w", e.p.options.Name, e.part, err)
		e.cancel(err)
	}
	return r, err
}
