package metadata

import (
	"slices"
	"strconv"
)

// TopicSettings are the settings in force of a topic, parsed, as far as this build acts on them.
// Times are in milliseconds, sizes in bytes; -1 is no limit for the two retentions.
type TopicSettings struct {
	CleanupDelete        bool
	CleanupCompact       bool
	FileDeleteDelayMS    int64
	Flush                string // FlushAlways, FlushGroup or FlushOS
	IndexIntervalBytes   int
	LogAppendTime        bool
	MaxMessageBytes      int
	MinInsyncReplicas    int
	RetentionBytes       int64
	RetentionMS          int64
	SegmentBytes         int64
	SegmentIndexBytes    int
	SegmentMS            int64
	TimestampAfterMaxMS  int64
	TimestampBeforeMaxMS int64
}

// TopicSettings returns the settings in force of a topic.
func (i *Image) TopicSettings(t *Topic) TopicSettings {
	get := func(name string) string {
		def, _ := LookupTopicConfig(name)
		return i.topicValue(t.Configs, def).Value
	}
	long := func(name string) int64 { return number(get(name)) }
	policies := splitList(get("cleanup.policy"))
	s := TopicSettings{
		CleanupDelete:        slices.Contains(policies, cleanupDelete),
		CleanupCompact:       slices.Contains(policies, cleanupCompact),
		FileDeleteDelayMS:    long("file.delete.delay.ms"),
		Flush:                i.flush(t),
		IndexIntervalBytes:   int(long("index.interval.bytes")),
		LogAppendTime:        get("message.timestamp.type") == logAppendTime,
		MaxMessageBytes:      int(long("max.message.bytes")),
		MinInsyncReplicas:    int(long("min.insync.replicas")),
		RetentionBytes:       long("retention.bytes"),
		RetentionMS:          long("retention.ms"),
		SegmentBytes:         long("segment.bytes"),
		SegmentIndexBytes:    int(long("segment.index.bytes")),
		SegmentMS:            long("segment.ms"),
		TimestampAfterMaxMS:  long("message.timestamp.after.max.ms"),
		TimestampBeforeMaxMS: long("message.timestamp.before.max.ms"),
	}
	if n, err := strconv.ParseInt(get("internal.segment.bytes"), 10, 64); err == nil {
		s.SegmentBytes = n
	}
	return s
}

// flush returns the durability in force: the setting flush where somebody set it, else what Kafka's
// flush.messages and flush.ms ask for, kept or passed.
func (i *Image) flush(t *Topic) string {
	value := func(name string) ConfigValue {
		def, _ := LookupTopicConfig(name)
		return i.topicValue(t.Configs, def)
	}
	flush, messages, ms := value("flush"), value("flush.messages"), value("flush.ms")
	switch {
	case flush.Source != SourceDefault:
		return flush.Value
	case messages.Value == "1":
		return FlushAlways
	case messages.Value != maxLong || ms.Value != maxLong:
		return FlushGroup
	}
	return flush.Value
}
