package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// kafkaAdmin asks over the shared client.
type kafkaAdmin struct{ client *kadm.Client }

var _ Admin = kafkaAdmin{}

func (a kafkaAdmin) Topics(ctx context.Context, names ...string) (map[string]TopicInfo, error) {
	infos := map[string]TopicInfo{}
	if len(names) == 0 {
		return infos, nil
	}
	details, err := a.client.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics %v: %w", names, domain(err))
	}
	for _, name := range names {
		d, ok := details[name]
		switch {
		case !ok, errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		case d.Err != nil:
			return nil, fmt.Errorf("describe topic %s: %w", name, d.Err)
		default:
			infos[name] = TopicInfo{ID: d.ID.String(), Partitions: int32(len(d.Partitions))}
		}
	}
	return infos, nil
}

func (a kafkaAdmin) AllTopics(ctx context.Context) (map[string]TopicInfo, error) {
	details, err := a.client.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", domain(err))
	}
	infos := map[string]TopicInfo{}
	for name, d := range details {
		if d.Err == nil {
			infos[name] = TopicInfo{ID: d.ID.String(), Partitions: int32(len(d.Partitions))}
		}
	}
	return infos, nil
}

func (a kafkaAdmin) CreateTopics(ctx context.Context, specs ...TopicSpec) error {
	for _, s := range specs {
		replication := s.Replication
		if replication == 0 {
			replication = -1
		}
		configs := map[string]*string{}
		for k, v := range s.Configs {
			configs[k] = &v
		}
		_, err := a.client.CreateTopic(ctx, s.Partitions, replication, configs, s.Name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s with %d partitions: %w", s.Name, s.Partitions, err)
		}
	}
	return a.settle(ctx, specs)
}

// settleTime is how long the client may take to see a new topic, or a broker to know a partition
// that the metadata names.
const settleTime = 5 * time.Second

// repeat calls fn with growing pauses until it is done, settleTime has passed or ctx ends, and
// returns its last error.
func repeat(ctx context.Context, fn func() (done bool, err error)) error {
	limit := time.NewTimer(settleTime)
	defer limit.Stop()
	for try := 0; ; try++ {
		done, err := fn()
		if done {
			return err
		}
		pause := time.NewTimer(backoff(try))
		select {
		case <-pause.C:
			continue
		case <-ctx.Done():
		case <-limit.C:
		}
		pause.Stop()
		return errors.Join(err, ctx.Err())
	}
}

// settle waits until new topics are seen. The client may have learnt a moment ago that they do not
// exist, and would answer the next question from that memory.
func (a kafkaAdmin) settle(ctx context.Context, specs []TopicSpec) error {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return repeat(ctx, func() (bool, error) {
		seen, err := a.Topics(ctx, names...)
		if err != nil {
			return true, err
		}
		for _, name := range names {
			if _, ok := seen[name]; !ok {
				return false, fmt.Errorf("created topic %s does not show: %w", name, ErrUnknownTopic)
			}
		}
		return true, nil
	})
}

// notYet reports an answer a broker gives for a partition it is about to lead: just created, or the
// broker just started. A topic that does not exist is missing in the metadata instead.
func notYet(err error) bool {
	_, ok := errors.AsType[*kerr.Error](err)
	return ok && kerr.IsRetriable(err)
}

func (a kafkaAdmin) Ranges(ctx context.Context, tps ...TopicPartition,
) (ranges map[TopicPartition]Range, err error) {
	err = repeat(ctx, func() (bool, error) {
		var err error
		ranges, err = a.ranges(ctx, tps)
		return !notYet(err), err
	})
	return ranges, err
}

func (a kafkaAdmin) ranges(ctx context.Context, tps []TopicPartition,
) (map[TopicPartition]Range, error) {
	ranges := map[TopicPartition]Range{}
	if len(tps) == 0 {
		return ranges, nil
	}
	var topics []string
	for _, tp := range tps {
		if !slices.Contains(topics, tp.Topic) {
			topics = append(topics, tp.Topic)
		}
	}
	starts, err := a.client.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list start offsets of %v: %w", topics, domain(err))
	}
	ends, err := a.client.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list end offsets of %v: %w", topics, domain(err))
	}
	for _, tp := range tps {
		start, ok := starts.Lookup(tp.Topic, tp.Partition)
		end, ok2 := ends.Lookup(tp.Topic, tp.Partition)
		if !ok || !ok2 {
			return nil, fmt.Errorf("list offsets of %s: %w", tp, ErrUnknownTopic)
		}
		if err := errors.Join(start.Err, end.Err); err != nil {
			return nil, fmt.Errorf("list offsets of %s: %w", tp, domain(err))
		}
		ranges[tp] = Range{start.Offset, end.Offset}
	}
	return ranges, nil
}

func (a kafkaAdmin) OffsetsAt(ctx context.Context, ms int64, tps ...TopicPartition,
) (offsets map[TopicPartition]int64, err error) {
	ms = max(ms, 0) // negative numbers ask for other things than a time
	var topics []string
	for _, tp := range tps {
		if !slices.Contains(topics, tp.Topic) {
			topics = append(topics, tp.Topic)
		}
	}
	err = repeat(ctx, func() (bool, error) {
		offsets = map[TopicPartition]int64{}
		listed, err := a.client.ListOffsetsAfterMilli(ctx, ms, topics...)
		if err != nil {
			return !notYet(err), fmt.Errorf("list offsets of %v at %d ms: %w", topics, ms, domain(err))
		}
		for _, tp := range tps {
			found, ok := listed.Lookup(tp.Topic, tp.Partition)
			if !ok {
				return true, fmt.Errorf("list offsets of %s: %w", tp, ErrUnknownTopic)
			}
			if found.Err != nil {
				return !notYet(found.Err), fmt.Errorf("list offsets of %s: %w", tp, domain(found.Err))
			}
			offsets[tp] = found.Offset
		}
		return true, nil
	})
	return offsets, err
}

func (a kafkaAdmin) DeleteRecords(ctx context.Context, before map[TopicPartition]int64) error {
	offsets := kadm.Offsets{}
	for tp, at := range before {
		offsets.Add(kadm.Offset{Topic: tp.Topic, Partition: tp.Partition, At: at, LeaderEpoch: -1})
	}
	answers, err := a.client.DeleteRecords(ctx, offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("delete records: %w", domain(err))
	}
	return nil
}

func (a kafkaAdmin) CommitOffsets(ctx context.Context, group string,
	next map[TopicPartition]int64,
) error {
	return a.CommitNoted(ctx, group, next, nil)
}

func (a kafkaAdmin) CommitNoted(ctx context.Context, group string, next map[TopicPartition]int64,
	notes map[TopicPartition]string,
) error {
	offsets := kadm.Offsets{}
	for tp, at := range next {
		offsets.Add(kadm.Offset{
			Topic: tp.Topic, Partition: tp.Partition, At: at, LeaderEpoch: -1, Metadata: notes[tp],
		})
	}
	answers, err := a.client.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("commit offsets of group %s: %w", group, err)
	}
	return nil
}

func (a kafkaAdmin) CommittedOffsets(ctx context.Context, group string,
) (map[TopicPartition]int64, error) {
	offsets := map[TopicPartition]int64{}
	err := a.committed(ctx, group, func(tp TopicPartition, o kadm.Offset) { offsets[tp] = o.At })
	return offsets, err
}

func (a kafkaAdmin) Notes(ctx context.Context, group string) (map[TopicPartition]string, error) {
	notes := map[TopicPartition]string{}
	err := a.committed(ctx, group, func(tp TopicPartition, o kadm.Offset) {
		if o.Metadata != "" {
			notes[tp] = o.Metadata
		}
	})
	return notes, err
}

// committed calls fn with each committed offset of a group.
func (a kafkaAdmin) committed(ctx context.Context, group string,
	fn func(TopicPartition, kadm.Offset),
) error {
	var answers kadm.OffsetResponses
	err := repeat(ctx, func() (done bool, err error) { // a coordinator may be about to begin
		answers, err = a.client.FetchOffsets(ctx, group)
		return !notYet(err), err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fetch offsets of group %s: %w", group, err)
	}
	for topic, partitions := range answers {
		for partition, o := range partitions {
			if o.Err != nil {
				return fmt.Errorf("fetch offset of %s-%d of group %s: %w", topic, partition, group,
					o.Err)
			}
			if o.At >= 0 {
				fn(TopicPartition{topic, partition}, o.Offset)
			}
		}
	}
	return nil
}
