package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/zeebo/xxh3"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/streams/operator"
)

// imprint is what one output record is compared by.
type imprint struct {
	hash   xxh3.Uint128
	offset int64
}

// fingerprints reads a topic from start to its present end: per partition, its records in order.
func fingerprints(
	ctx context.Context, connect deploy.Connect, topic string,
) (map[int32][]imprint, error) {
	imprints := map[int32][]imprint{}
	err := scan(ctx, connect, topic, func(r *kgo.Record) bool {
		if carriesTime(r) {
			return true
		}
		imprints[r.Partition] = append(imprints[r.Partition], imprint{fingerprint(r), r.Offset})
		return true
	})
	return imprints, err
}

// carriesTime tells whether a record is no result but tells readers how far a writer is.
func carriesTime(r *kgo.Record) bool {
	return slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool {
		return h.Key == operator.HeaderWatermark
	})
}

// fingerprint hashes what must be equal. Every part is preceded by its length, and null differs
// from empty, so that no two different records look alike by concatenation.
func fingerprint(r *kgo.Record) xxh3.Uint128 {
	var h xxh3.Hasher
	var n [8]byte
	part := func(data []byte) {
		size := int64(len(data))
		if data == nil {
			size = -1
		}
		binary.BigEndian.PutUint64(n[:], uint64(size))
		_, _ = h.Write(n[:]) // a hash never fails to write
		_, _ = h.Write(data)
	}
	binary.BigEndian.PutUint64(n[:], uint64(r.Timestamp.UnixMilli()))
	_, _ = h.Write(n[:])
	part(r.Key)
	part(r.Value)
	for _, header := range r.Headers {
		if header.Key != operator.HeaderLane { // names the writer, who differs by design
			part([]byte(header.Key))
			part(header.Value)
		}
	}
	return h.Sum128()
}

// scan reads a topic from start to its present end until fn returns false.
func scan(
	ctx context.Context, connect deploy.Connect, topic string, fn func(*kgo.Record) bool,
) error {
	client, err := connect()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer client.Close()
	starts, ends, err := edges(ctx, kadm.NewClient(client), topic)
	if err != nil {
		return err
	}
	offsets, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for p, end := range ends {
		if starts[p] < end {
			offsets[p] = kgo.NewOffset().At(starts[p])
			left[p] = end
		}
	}
	if len(left) == 0 {
		return nil
	}
	reader, err := connect(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer reader.Close()
	return readUntil(ctx, reader, left, fn)
}

// readUntil hands records to fn until every partition has reached its end.
func readUntil(
	ctx context.Context, reader *kgo.Client, left map[int32]int64, fn func(*kgo.Record) bool,
) error {
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s-%d: %w", e.Topic, e.Partition, e.Err)
		}
		for _, r := range fetches.Records() {
			end, wanted := left[r.Partition]
			if !wanted || r.Offset >= end {
				continue
			}
			if !r.Attrs.IsControl() && !fn(r) {
				return nil
			}
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		}
	}
	return nil
}

// ErrUnknownTopic means that an output does not exist.
var ErrUnknownTopic = errors.New("no such topic")

// edges gives the start and end offsets of each partition.
func edges(
	ctx context.Context, adm *kadm.Client, topic string,
) (starts, ends map[int32]int64, err error) {
	if starts, err = listed(adm.ListStartOffsets(ctx, topic)); err == nil {
		ends, err = listed(adm.ListEndOffsets(ctx, topic))
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, nil, fmt.Errorf("topic %q: %w", topic, ErrUnknownTopic)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	return starts, ends, nil
}

func listed(all kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = all.Error()
	}
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, partitions := range all {
		for p, o := range partitions {
			out[p] = o.Offset
		}
	}
	return out, nil
}
