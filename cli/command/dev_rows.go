package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

// rowsPerSecond bounds what dev prints of a pipeline's results, shared out between its topics so
// that a talkative one leaves room for the others; the rest is counted.
const rowsPerSecond = 10

// rowPrinter shows results as they come out of the topics it was told of.
type rowPrinter struct {
	out     io.Writer
	before  func() // clears a progress bar
	connect deploy.Connect

	mu struct {
		sync.Mutex
		topics  []string       // that are followed
		window  time.Time      // start of the present second
		shown   map[string]int // rows printed in it, by topic
		skipped int64          // rows not printed since the last one that was
	}
}

// rowStart is where printing begins, by topic and partition.
type rowStart map[string]map[int32]kgo.Offset

// follow prints what is appended behind starts, until ctx ends. Topics that did not exist yet are
// read from their beginning once they do.
func (p *rowPrinter) follow(ctx context.Context, starts rowStart) error {
	if len(starts) == 0 {
		return nil
	}
	p.mu.Lock()
	p.mu.topics = slices.AppendSeq(p.mu.topics, maps.Keys(starts))
	p.mu.Unlock()
	reader, err := p.connect(
		kgo.ConsumeTopics(slices.Collect(maps.Keys(starts))...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(500*time.Millisecond))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer reader.Close()
	for {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		fetches.EachRecord(func(r *kgo.Record) {
			from, known := starts[r.Topic][r.Partition]
			if !known || r.Offset >= from.EpochOffset().Offset {
				p.show(r, time.Now())
			}
		})
	}
}

// ends gives the present ends of the topics that exist.
func (p *rowPrinter) ends(ctx context.Context, topics []string) (rowStart, error) {
	starts := rowStart{}
	if len(topics) == 0 {
		return starts, nil
	}
	client, err := p.connect()
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	for _, topic := range topics {
		starts[topic] = map[int32]kgo.Offset{}
		for partition, end := range listed[topic] {
			if end.Err == nil {
				starts[topic][partition] = kgo.NewOffset().At(end.Offset)
			}
		}
	}
	return starts, nil
}

func (p *rowPrinter) show(r *kgo.Record, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.mu.window) >= time.Second {
		p.mu.window, p.mu.shown = now, map[string]int{}
	}
	if p.mu.shown[r.Topic] >= max(rowsPerSecond/max(len(p.mu.topics), 1), 1) {
		p.mu.skipped++
		return
	}
	p.mu.shown[r.Topic]++
	p.before()
	if p.mu.skipped > 0 {
		fmt.Fprintf(p.out, "  … %d more\n", p.mu.skipped)
		p.mu.skipped = 0
	}
	name := 0
	for _, topic := range p.mu.topics {
		name = max(name, len(topic))
	}
	row := fmt.Sprintf("%-*s  %s", name, r.Topic, readable(r.Value))
	fmt.Fprintln(p.out, output.Fit(p.out, row))
}

// rest tells how many rows were not shown at the end.
func (p *rowPrinter) rest() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.mu.skipped
	p.mu.skipped = 0
	return n
}
