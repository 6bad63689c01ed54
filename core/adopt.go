package core

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// ErrIncompleteCopy says that Kafka's metadata knows partitions that were not copied.
var ErrIncompleteCopy = errors.New("the copy of Kafka's data directory is incomplete")

// takeNodeID sets the node's id, if it was not given, to whose the data directory is.
func (o *Options) takeNodeID() {
	if o.NodeID != 0 || o.DataDir == "" {
		return
	}
	o.NodeID = defaultNodeID
	name := filepath.Join(o.DataDir, "data", "meta.properties")
	if id, err := storage.ReadNodeID(o.FS, name); err == nil && id > 0 {
		o.NodeID = id
	}
}

// adopt takes topics, configs and producer ids over from the metadata log of Apache Kafka, if the
// data directory is a copy of a log.dirs of Kafka's and no topic is known yet. All of it is one
// entry of the metadata log here, so that a crash leaves all or nothing. Kafka's log is then set
// aside like any that the cluster does not know.
func (b *Broker) adopt(ctx context.Context) error {
	l, ok := b.dataDir.Log(raft.LogPartition)
	if !ok || b.controller.Image().TopicCount() > 0 {
		return nil
	}
	if err := l.Err(); err != nil {
		return fmt.Errorf("read Kafka's metadata: %w", err)
	}
	kafka := metadata.NewKafkaMetadata()
	if err := b.readKafka(l, kafka); err != nil {
		return fmt.Errorf("read Kafka's metadata: %w", err)
	}
	records, err := b.adoptTopics(kafka)
	if err != nil {
		return err
	}
	topics := len(records)
	configs, refused := kafka.ConfigRecords(b.opts.NodeID)
	for _, err := range refused {
		b.log.Warn("setting of Kafka's is not taken over", "error", err)
	}
	records = append(records, configs...)
	if next := kafka.NextProducerID(); next > b.controller.Image().NextProducerID() {
		records = append(records, &metadata.ProducerIDsRecord{Next: next})
	}
	if topics == 0 {
		return nil
	}
	if err := b.controller.Adopt(ctx, records); err != nil {
		return fmt.Errorf("adopt Kafka's data directory: %w", err)
	}
	b.log.Info("data directory of Apache Kafka adopted",
		"topics", b.controller.Image().TopicCount(), "configs", len(configs),
		"configs left out", len(refused))
	return nil
}

// readKafka reads the newest snapshot and the log after it.
func (b *Broker) readKafka(l *storage.Log, kafka *metadata.KafkaMetadata) error {
	dir := filepath.Join(b.dataPath(), raft.LogPartition.String())
	entries, err := b.opts.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	newest, from := "", int64(0)
	for _, e := range entries { // in the order of their offsets
		var offset, epoch int64
		n, _ := fmt.Sscanf(e.Name(), "%020d-%010d.checkpoint", &offset, &epoch)
		if n == 2 && strings.HasSuffix(e.Name(), ".checkpoint") && offset <= l.EndOffset() {
			newest, from = e.Name(), offset
		}
	}
	if newest != "" {
		data, err := vfs.ReadFile(b.opts.FS, filepath.Join(dir, newest))
		if err == nil {
			err = addBatches(kafka, data, 0)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", newest, err)
		}
	}
	if from < l.StartOffset() {
		return fmt.Errorf("the log begins at %d and no snapshot leads up to it: %w", l.StartOffset(),
			ErrIncompleteCopy)
	}
	for at := from; at < l.EndOffset(); {
		c, err := l.Read(at, 1<<20, l.EndOffset(), true)
		if err != nil {
			return err
		}
		data, err := c.AppendTo(nil)
		next := c.NextOffset()
		c.Release()
		if err == nil {
			err = addBatches(kafka, data, at)
		}
		if err != nil {
			return err
		}
		if next <= at {
			break
		}
		at = next
	}
	return nil
}

// addBatches adds the batches that begin at offset from or later.
func addBatches(kafka *metadata.KafkaMetadata, data []byte, from int64) error {
	for len(data) > 0 {
		batch, rest, err := record.Next(data)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err == nil && batch.BaseOffset() >= from {
			err = kafka.Add(batch)
		}
		if err != nil {
			return err
		}
		data = rest
	}
	return nil
}

// adoptTopics makes the records of topics and partitions, each led by this broker in an epoch that
// nobody has seen. A partition without a directory is refused: its records would be lost silently.
func (b *Broker) adoptTopics(kafka *metadata.KafkaMetadata) ([]metadata.Record, error) {
	topics, err := kafka.Topics()
	if err != nil {
		return nil, fmt.Errorf("read Kafka's metadata: %w", err)
	}
	var records []metadata.Record
	var missing []string
	for _, t := range topics {
		records = append(records, &metadata.TopicRecord{Name: t.Name, ID: t.ID,
			Internal: metadata.IsInternalTopic(t.Name)})
		for i, epoch := range t.LeaderEpoch {
			tp := storage.TopicPartition{Topic: t.Name, Partition: int32(i)}
			l, ok := b.dataDir.Log(tp)
			if !ok {
				missing = append(missing, tp.String())
				continue
			}
			node := []int32{b.opts.NodeID}
			records = append(records, &metadata.PartitionRecord{TopicID: t.ID, Index: int32(i),
				Partition: metadata.Partition{Leader: b.opts.NodeID, Replicas: node, ISR: node,
					LeaderEpoch: max(epoch, l.LatestEpoch()) + 1}})
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s has no directory for %s: copy all directories of log.dirs, of "+
			"a broker that has every partition", ErrIncompleteCopy, b.dataPath(),
			strings.Join(missing[:min(len(missing), 10)], ", "))
	}
	return records, nil
}
