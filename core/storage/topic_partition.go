package storage

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// maxTopicName is the longest topic name the protocol allows, in bytes.
const maxTopicName = 249

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns "<topic>-<partition>", which is also the name of the partition's directory.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.FormatInt(int64(tp.Partition), 10)
}

// LogValue is the same, for logs.
func (tp TopicPartition) LogValue() slog.Value { return slog.StringValue(tp.String()) }

// validate refuses names that could leave the data directory or collide in it.
func (tp TopicPartition) validate() error {
	bad := strings.IndexFunc(tp.Topic, func(r rune) bool {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return false
		}
		return r != '.' && r != '_' && r != '-'
	})
	if bad >= 0 || tp.Topic == "" || tp.Topic == "." || tp.Topic == ".." ||
		len(tp.Topic) > maxTopicName || tp.Partition < 0 {
		return fmt.Errorf("invalid partition name %q %d", tp.Topic, tp.Partition)
	}
	return nil
}

// parseTopicPartition reads a directory's name; false if it is none of a partition.
func parseTopicPartition(name string) (TopicPartition, bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || i == len(name)-1 || name[i+1] == '+' {
		return TopicPartition{}, false
	}
	p, err := strconv.ParseInt(name[i+1:], 10, 32)
	tp := TopicPartition{Topic: name[:i], Partition: int32(p)}
	if err != nil || tp.validate() != nil || tp.String() != name {
		return TopicPartition{}, false
	}
	return tp, true
}
