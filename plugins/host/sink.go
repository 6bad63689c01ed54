package host

import (
	"context"
	"sync"
	"time"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// sinkHangTimeout is the least time a sink gets for a batch: it may wait for another system.
const sinkHangTimeout = 2 * time.Minute

// TopicOffset is the next offset of a partition: all below it is acknowledged.
type TopicOffset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// SinkOptions say which sink to run.
type SinkOptions struct {
	Part   string // name of the sink; "" = the only one of the plugin
	Config []byte // JSON
	Task   string // names the task in logs
	// Committed is what was acknowledged before, for the sink to compare with what it finds.
	Committed []TopicOffset
}

// Sink is a sink of a plugin at work for one task. Its methods may be called concurrently;
// batches are written in the order of their Submit.
type Sink struct {
	ex *exchange
	mu struct {
		sync.Mutex
		committed map[partition]int64
	}
}

type partition struct {
	topic string
	id    int32
}

// Sink opens a sink and waits until it is ready. When the plugin asks for another try, as sinks do
// whose system is down, it is opened again until ctx ends.
func (p *Plugin) Sink(ctx context.Context, o SinkOptions) (*Sink, error) {
	s := &Sink{}
	s.mu.committed = make(map[partition]int64)
	for _, c := range o.Committed {
		s.mu.committed[partition{c.Topic, c.Partition}] = c.Offset
	}
	s.ex = &exchange{
		p: p, part: o.Part, task: o.Task, kind: "sink",
		hang: max(p.options.HangTimeout, sinkHangTimeout),
		connect: func(ctx context.Context, c pluginpb.PluginClient) (clientStream, error) {
			return c.Sink(ctx)
		},
		open: func() *pluginpb.Open {
			return &pluginpb.Open{Config: o.Config, Committed: s.offsets()}
		},
		answered: s.answered,
	}
	if err := p.begin(ctx, s, s.ex); err != nil {
		return nil, err
	}
	return s, nil
}

// Write writes a batch and waits until the sink acknowledged it. The errors are those of single
// records, by index; err is final for the sink, but for the end of ctx. After a crash the sink gets
// what it did not acknowledge again.
func (s *Sink) Write(ctx context.Context, batch []Record) (errs []RecordError, err error) {
	p, err := s.Submit(ctx, batch)
	if err != nil {
		return nil, err
	}
	r, err := p.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return r.errs, nil
}

// Submit queues a batch without waiting for its acknowledgement. batch may
// be reused when Submit returns.
func (s *Sink) Submit(ctx context.Context, batch []Record) (*Pending, error) {
	return s.ex.submitBatch(ctx, batch, nextOffsets)
}

// Committed returns the next offset of each partition, all below it acknowledged.
func (s *Sink) Committed() []TopicOffset {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []TopicOffset
	for p, o := range s.mu.committed {
		out = append(out, TopicOffset{p.topic, p.id, o})
	}
	return out
}

// Close drains the sink, at most 5 seconds, and ends its stream. The process goes on.
func (s *Sink) Close() error {
	defer s.ex.p.unregister(s)
	return s.ex.drain()
}

// nextOffsets says how far records go.
func nextOffsets(records []Record) []TopicOffset {
	var next []TopicOffset
	for i := range records {
		r := &records[i]
		k := len(next) - 1
		for k >= 0 && (next[k].Topic != r.Topic || next[k].Partition != r.Partition) {
			k--
		}
		if k < 0 {
			next = append(next, TopicOffset{r.Topic, r.Partition, r.Offset + 1})
		} else {
			next[k].Offset = max(next[k].Offset, r.Offset+1)
		}
	}
	return next
}

// answered moves the committed offsets on, unless records of the frame are to be written again.
func (s *Sink) answered(c *call) {
	if c.answer != nil {
		for _, e := range c.answer.errs {
			if e.Retryable {
				return
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range c.next {
		k := partition{o.Topic, o.Partition}
		s.mu.committed[k] = max(s.mu.committed[k], o.Offset)
	}
}

func (s *Sink) offsets() []*pluginpb.TopicOffset {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*pluginpb.TopicOffset
	for p, o := range s.mu.committed {
		out = append(out, &pluginpb.TopicOffset{Topic: p.topic, Partition: p.id, Offset: o})
	}
	return out
}
