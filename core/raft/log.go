package raft

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/storage"
)

// LogPartition is the log of the entries. It has Kafka's name for it; no topic can have it, and
// nobody but this package may touch it.
var LogPartition = storage.TopicPartition{Topic: "__cluster_metadata", Partition: 0}

// logTopicID is the id Kafka reserves for that topic.
var logTopicID = uuid.UUID{15: 1}

// LogConfig returns the config of the log that entries go to: nothing is ever deleted from it but
// what a snapshot covers, and the node syncs it itself.
func LogConfig() storage.Config {
	c := storage.DefaultConfig()
	c.SegmentBytes = 64 << 20
	c.SegmentMS = 1 << 50
	c.RetentionMS, c.RetentionBytes = -1, -1
	c.Flush = storage.FlushOS
	return c
}

// OpenLog returns the entries' log in a data directory, made if it is missing.
func OpenLog(dir *storage.Dir) (*storage.Log, error) {
	if log, ok := dir.Log(LogPartition); ok {
		if err := log.SetConfig(LogConfig()); err != nil {
			return nil, fmt.Errorf("open raft log: %w", err)
		}
		return log, nil
	}
	log, err := dir.Create(LogPartition, logTopicID, LogConfig())
	if err != nil {
		return nil, fmt.Errorf("make raft log: %w", err)
	}
	return log, nil
}
