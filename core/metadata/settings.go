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
	Compression          Compression
	DeleteRetentionMS    int64
	FileDeleteDelayMS    int64
	Flush                string // FlushAlways, FlushGroup or FlushOS
	FlushMessages        int64
	FlushMS              int64
	IndexIntervalBytes   int
	LogAppendTime        bool
	MaxCompactionLagMS   int64
	MaxMessageBytes      int
	MinCleanableRatio    float64
	MinCompactionLagMS   int64
	MinInsyncReplicas    int
	Preallocate          bool
	RetentionBytes       int64
	RetentionMS          int64
	SegmentBytes         int64
	SegmentIndexBytes    int
	SegmentJitterMS      int64
	SegmentMS            int64
	SkipVerification     bool // transaction.partition.verification.enable=false
	TimestampAfterMaxMS  int64
	TimestampBeforeMaxMS int64
}

// Compression is what batches are stored with.
type Compression struct {
	// Type is a codec, "uncompressed", or "producer" for that of each batch.
	Type                           string
	GzipLevel, Lz4Level, ZstdLevel int
}

// TopicSettings returns the settings in force of a topic.
func (i *Image) TopicSettings(t *Topic) TopicSettings {
	get := func(name string) string {
		def, _ := LookupTopicConfig(name)
		return i.topicValue(t.Configs, def).Value
	}
	long := func(name string) int64 { return number(get(name)) }
	ratio, _ := strconv.ParseFloat(get("min.cleanable.dirty.ratio"), 64) // validated when set
	policies := splitList(get("cleanup.policy"))
	s := TopicSettings{
		CleanupDelete:  slices.Contains(policies, cleanupDelete),
		CleanupCompact: slices.Contains(policies, cleanupCompact),
		Compression: Compression{
			Type:      get("compression.type"),
			GzipLevel: int(long("compression.gzip.level")),
			Lz4Level:  int(long("compression.lz4.level")),
			ZstdLevel: int(long("compression.zstd.level")),
		},
		DeleteRetentionMS:  long("delete.retention.ms"),
		FileDeleteDelayMS:  long("file.delete.delay.ms"),
		Flush:              i.flush(t),
		FlushMessages:      long("flush.messages"),
		FlushMS:            long("flush.ms"),
		IndexIntervalBytes: int(long("index.interval.bytes")),
		LogAppendTime:      get("message.timestamp.type") == logAppendTime,
		MaxCompactionLagMS: long("max.compaction.lag.ms"),
		MaxMessageBytes:    int(long("max.message.bytes")),
		MinCleanableRatio:  ratio,
		MinCompactionLagMS: long("min.compaction.lag.ms"),
		MinInsyncReplicas:  int(long("min.insync.replicas")),
		Preallocate:        get("preallocate") == "true",
		RetentionBytes:     max(long("retention.bytes"), -1),
		RetentionMS:        long("retention.ms"),
		SegmentBytes:       long("segment.bytes"),
		SegmentIndexBytes:  int(long("segment.index.bytes")),
		SegmentJitterMS:    long("segment.jitter.ms"),
		SegmentMS:          long("segment.ms"),
		SkipVerification: i.BrokerConfigValue(
			"transaction.partition.verification.enable") == "false",
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
