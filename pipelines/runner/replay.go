package runner

import (
	"context"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/operator"
)

// shadow makes what a replay needs beyond a live run; nil on a live one.
func (in *instance) shadow(ctx context.Context, cluster client.Cluster) (*shadow, error) {
	spec := in.p.revision.Replay
	if spec == nil {
		return nil, nil
	}
	s := &shadow{spec: spec, edge: operator.NoTime}
	if spec.Forked || !windowed(in.p.plan) {
		return s, nil // what began before the range is in its state
	}
	for _, source := range in.p.plan.Sources {
		if source.TableOnly {
			continue
		}
		edge, err := in.edgeOf(ctx, cluster, source)
		if err != nil {
			return nil, err
		}
		s.edge = max(s.edge, edge)
	}
	return s, nil
}

func windowed(p *plan.Plan) bool {
	for _, n := range p.Nodes {
		if n.Aggregate != nil {
			return true
		}
	}
	return false
}

// edgeOf reads what lies before the range for its largest event time.
func (in *instance) edgeOf(
	ctx context.Context, cluster client.Cluster, source *plan.Source,
) (int64, error) {
	consumer, err := cluster.Consumer()
	if err != nil {
		return 0, err
	}
	defer consumer.Close()
	a := &assembly{now: in.runner.opts.Now}
	extract := a.timestamp(source)
	if extract == nil {
		extract = eventtime.FromRecord
	}
	edge := operator.NoTime
	for p, span := range in.p.revision.Replay.Ranges[source.Topic] {
		tp := client.TopicPartition{Topic: source.Topic, Partition: p}
		ranges, err := cluster.Admin().Ranges(ctx, tp)
		if err != nil {
			return 0, err
		}
		from := &operator.Input{Topic: tp.Topic, Partition: p}
		err = client.ReadRange(ctx, consumer, tp, ranges[tp].Start, span.From,
			func(records []record.Record) error {
				for i := range records {
					r := &records[i]
					ts, err := eventtime.Extract(extract, &operator.Record{Key: r.Key,
						Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, Raw: r,
						From: from})
					if err == nil {
						edge = max(edge, ts)
					}
				}
				return nil
			})
		if err != nil {
			return 0, err
		}
	}
	return edge, nil
}
