package runner

import (
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
)

// tail shows records of one node of an instance.
type tail struct {
	tap    *task.Tap
	remove func()
	filter *expression.Program // nil shows all
	env    *expression.Env
	sums   deploy.TailSample
	// waiting were let through by the filter and not shown yet.
	waiting []task.Tapped
}

var _ deploy.Tailer = (*instance)(nil)

// tailWaiting bounds what is kept for later when more passes than may be shown.
const tailWaiting = 1000

// Tail implements deploy.Tailer.
func (in *instance) Tail(q deploy.TailRequest) (deploy.Tail, error) {
	in.mu.Lock()
	worker := in.mu.worker
	in.mu.Unlock()
	if worker == nil {
		return nil, deploy.ErrNoTail
	}
	step, before, scope, err := in.tapPoint(q)
	if err != nil {
		return nil, err
	}
	t := &tail{}
	if q.Filter != "" {
		set := expression.NewSet(scope)
		program, issues := set.Compile(q.Filter, expression.WantBool)
		if program == nil {
			var errs []error
			for _, issue := range issues {
				errs = append(errs, errors.New(issue.Message))
			}
			return nil, fmt.Errorf("filter %q: %w", q.Filter, errors.Join(errs...))
		}
		t.filter = program
		t.env = set.NewEnv(expression.EnvOptions{Now: in.runner.opts.Now})
	}
	t.tap, t.remove = worker.Tap(step, before)
	return t, nil
}

// tapPoint finds the step of the topology that a node is, and what its records look like as far as
// that is known.
func (in *instance) tapPoint(q deploy.TailRequest) (step string, before bool,
	scope *expression.Scope, err error,
) {
	p := in.p.plan
	scope = &expression.Scope{Vars: p.Vars, Window: true,
		Key: expression.Doc{Format: expression.FormatString}}
	for _, n := range p.Nodes {
		if n.ID != q.Node {
			continue
		}
		if !q.Before {
			scope.Key, scope.Value, scope.Rows = n.Key, n.Value, n.Rows
		}
		return n.StreamID(), q.Before, scope, nil
	}
	if s := p.Source(q.Node); s != nil {
		if q.Before || s.TableOnly {
			return "", false, nil, fmt.Errorf("%s is a source: its records can be seen as they leave it,"+
				" in topic %s as they come", s.ID, s.Topic)
		}
		return s.StreamID(), false, scope, nil
	}
	for _, s := range p.Sinks {
		if s.ID == q.Node {
			return s.ID + ":out", q.Before, scope, nil
		}
	}
	return "", false, nil, fmt.Errorf("pipeline %s has no source, step or sink %q", p.Pipeline, q.Node)
}

// Next implements deploy.Tail.
func (t *tail) Next(most int) deploy.TailSample {
	taken, seen := t.tap.Take()
	t.sums.Seen = seen
	for i := range taken {
		t.sums.Looked++
		ok, err := t.wants(&taken[i])
		if err != nil {
			t.sums.Failed++
		}
		if !ok {
			continue
		}
		t.sums.Matched++
		if len(t.waiting) < tailWaiting {
			t.waiting = append(t.waiting, taken[i])
		}
	}
	sample := t.sums
	n := min(most, len(t.waiting))
	for i := range t.waiting[:n] {
		sample.Records = append(sample.Records, tailRecord(&t.waiting[i]))
	}
	t.waiting = t.waiting[n:]
	t.sums.Shown += int64(n)
	sample.Shown = t.sums.Shown
	return sample
}

// wants asks the filter about a record.
func (t *tail) wants(r *task.Tapped) (bool, error) {
	if t.filter == nil {
		return true, nil
	}
	rec := expression.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Topic: r.Topic,
		Timestamp: r.Timestamp, Partition: r.Partition, Offset: r.Offset,
		WindowStart: r.Window.Start, WindowEnd: r.Window.End}
	t.env.Reset(&rec)
	return t.filter.Bool(t.env)
}

// Close implements deploy.Tail.
func (t *tail) Close() { t.remove() }

func tailRecord(r *task.Tapped) deploy.TailRecord {
	out := deploy.TailRecord{Task: r.Task, Topic: r.Topic, Partition: r.Partition,
		Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Cut: r.Cut}
	if r.Window != (operator.Window{}) {
		out.Window = r.Window.String()
	}
	for _, h := range r.Headers {
		if out.Headers == nil {
			out.Headers = map[string][]byte{}
		}
		out.Headers[h.Key] = h.Value
	}
	return out
}
