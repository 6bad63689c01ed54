package metadata

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

const (
	maxLong = "9223372036854775807"
	topLong = float64(math.MaxInt64)
	topInt  = float64(math.MaxInt32)

	topIntValue = math.MaxInt32
)

// Values of the topic setting flush.
const (
	FlushAlways = "always" // fsync each append on its own
	FlushGroup  = "group"  // fsync once for all appends that arrived meanwhile
	FlushOS     = "os"     // leave it to the operating system
)

// Values of cleanup.policy and message.timestamp.type.
const (
	cleanupDelete  = "delete"
	cleanupCompact = "compact"
	logAppendTime  = "LogAppendTime"
)

// Why a setting changes nothing.
const (
	inertOneNode = "it speaks of several brokers, and this cluster has one"
	inertTiered  = "tiered storage is not there"
)

// Checks of single settings.

func notZero(value string) string {
	if value == "0" {
		return "0 is no level"
	}
	return ""
}

func onlyFalse(value string) string {
	if value != "false" {
		return "only false is supported"
	}
	return ""
}

var throttledReplica = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

// throttledReplicas accepts "*" and lists of partition:broker.
func throttledReplicas(value string) string {
	if value == "" || value == "*" {
		return ""
	}
	for element := range strings.SplitSeq(value, ",") {
		if !throttledReplica.MatchString(element) {
			return fmt.Sprintf("%q is neither * nor partition:broker", element)
		}
	}
	return ""
}

// topicConfigs are the settings of Kafka 4.3's LogConfig, and flush.
var topicConfigs = sorted([]*ConfigDef{
	{Name: "cleanup.policy", Type: List, Default: cleanupDelete,
		Enum:           []string{cleanupCompact, cleanupDelete},
		BrokerSynonyms: []string{"log.cleanup.policy"},
		Doc: "What happens to old data: delete, compact (keep the last value of a key), both, or " +
			"nothing where it is empty."},
	{Name: "compression.type", Type: String, Default: "producer",
		Enum:           []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"},
		BrokerSynonyms: []string{"compression.type"},
		Doc:            "Codec batches are stored with; producer keeps the one they arrived in."},
	{Name: "compression.gzip.level", Type: Int, Default: "-1", Min: -1, Max: 9, Check: notZero,
		BrokerSynonyms: []string{"compression.gzip.level"},
		Doc:            "Level of gzip where compression.type=gzip; -1 is its usual one."},
	{Name: "compression.lz4.level", Type: Int, Default: "9", Min: 1, Max: 17,
		BrokerSynonyms: []string{"compression.lz4.level"},
		Doc:            "Level of lz4 where compression.type=lz4."},
	{Name: "compression.zstd.level", Type: Int, Default: "3", Min: -131072, Max: 22,
		BrokerSynonyms: []string{"compression.zstd.level"},
		Doc:            "Level of zstd where compression.type=zstd."},
	{Name: "delete.retention.ms", Type: Long, Default: "86400000", Min: 0, Max: topLong,
		BrokerSynonyms: []string{"log.cleaner.delete.retention.ms"},
		Doc:            "How long compaction keeps tombstones, in milliseconds."},
	{Name: "file.delete.delay.ms", Type: Long, Default: "60000", Min: 0, Max: topLong,
		BrokerSynonyms: []string{"log.segment.delete.delay.ms"},
		Doc:            "How long a deleted file stays on the disk, in milliseconds."},
	{Name: "flush", Type: String, Default: FlushGroup,
		Enum:           []string{FlushAlways, FlushGroup, FlushOS},
		BrokerSynonyms: []string{"log.flush"},
		Doc: "When a write counts as safe where there is one replica: always (fsync each append), " +
			"group (fsync shared by the appends that arrive meanwhile), os (page cache)."},
	{Name: "flush.messages", Type: Long, Default: maxLong, Min: 1, Max: topLong,
		BrokerSynonyms: []string{"log.flush.interval.messages"},
		Doc: "Records after which an append syncs before it returns, where flush=os. Where flush " +
			"is not set, 1 acts as flush=always and any other value as flush=group, which sync " +
			"each append anyway."},
	{Name: "flush.ms", Type: Long, Default: maxLong, Min: 0, Max: topLong,
		BrokerSynonyms: []string{"log.flush.interval.ms"},
		Doc: "Milliseconds after which an append is synced at the latest, where flush=os. " +
			"flush=group and flush=always sync each append anyway."},
	{Name: "follower.replication.throttled.replicas", Type: List, Default: "",
		Check: throttledReplicas, Inert: inertOneNode,
		Doc: "Replicas whose copying is slowed down, as partition:broker or *."},
	{Name: "leader.replication.throttled.replicas", Type: List, Default: "",
		Check: throttledReplicas, Inert: inertOneNode,
		Doc: "Replicas whose copying is slowed down at the leader, as partition:broker or *."},
	{Name: "index.interval.bytes", Type: Int, Default: "4096", Min: 0, Max: topInt,
		BrokerSynonyms: []string{"log.index.interval.bytes"},
		Doc:            "Bytes of log between two entries of the offset index."},
	{Name: "internal.segment.bytes", Type: Int, NoDefault: true, Min: 1, Max: topInt,
		Hidden: true, Doc: "segment.bytes without its lower bound, for tests."},
	{Name: "local.retention.bytes", Type: Long, Default: "-2", Min: -2, Max: topLong,
		BrokerSynonyms: []string{"log.local.retention.bytes"}, Inert: inertTiered,
		Doc: "Bytes kept locally by tiered storage."},
	{Name: "local.retention.ms", Type: Long, Default: "-2", Min: -2, Max: topLong,
		BrokerSynonyms: []string{"log.local.retention.ms"}, Inert: inertTiered,
		Doc: "Milliseconds kept locally by tiered storage."},
	{Name: "max.compaction.lag.ms", Type: Long, Default: maxLong, Min: 1, Max: topLong,
		BrokerSynonyms: []string{"log.cleaner.max.compaction.lag.ms"},
		Doc:            "Latest time until a record can be compacted, in milliseconds."},
	{Name: "max.message.bytes", Type: Int, Default: "1048588", Min: 0, Max: topInt,
		BrokerSynonyms: []string{"message.max.bytes"},
		Doc:            "Largest batch accepted, in bytes, compressed."},
	{Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", Min: 0, Max: topLong,
		BrokerSynonyms: []string{"log.message.timestamp.after.max.ms"},
		Doc:            "How far ahead of the broker's clock a record's time may be, in milliseconds."},
	{Name: "message.timestamp.before.max.ms", Type: Long, Default: maxLong, Min: 0, Max: topLong,
		BrokerSynonyms: []string{"log.message.timestamp.before.max.ms"},
		Doc:            "How far behind the broker's clock a record's time may be, in milliseconds."},
	{Name: "message.timestamp.type", Type: String, Default: "CreateTime",
		Enum:           []string{"CreateTime", logAppendTime},
		BrokerSynonyms: []string{"log.message.timestamp.type"},
		Doc:            "Who sets a record's time: its producer or the broker that appends it."},
	{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Min: 0, Max: 1,
		BrokerSynonyms: []string{"log.cleaner.min.cleanable.ratio"},
		Doc:            "Part of a log that must be new before it is compacted."},
	{Name: "min.compaction.lag.ms", Type: Long, Default: "0", Min: 0, Max: topLong,
		BrokerSynonyms: []string{"log.cleaner.min.compaction.lag.ms"},
		Doc:            "How long a record stays before it can be compacted, in milliseconds."},
	{Name: "min.insync.replicas", Type: Int, Default: "1", Min: 1, Max: topInt,
		BrokerSynonyms: []string{"min.insync.replicas"},
		Doc:            "Replicas that must have a write before acks=all is answered."},
	{Name: "preallocate", Type: Boolean, Default: "false",
		BrokerSynonyms: []string{"log.preallocate"},
		Doc:            "Reserve the disk space of a segment when it is made."},
	{Name: "remote.log.copy.disable", Type: Boolean, Default: "false",
		Inert: inertTiered, Doc: "Stop copying to tiered storage."},
	{Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false",
		Inert: inertTiered, Doc: "Delete from tiered storage when it is switched off."},
	{Name: "remote.storage.enable", Type: Boolean, Default: "false",
		Check: onlyFalse, Inert: inertTiered,
		Doc: "Copy old segments to tiered storage; true is refused."},
	{Name: "retention.bytes", Type: Long, Default: "-1",
		BrokerSynonyms: []string{"log.retention.bytes"},
		Doc:            "Bytes a partition keeps when old segments are deleted; below 0 is no limit."},
	{Name: "retention.ms", Type: Long, Default: "604800000", Min: -1, Max: topLong,
		BrokerSynonyms: []string{"log.retention.ms", "log.retention.minutes",
			"log.retention.hours"},
		Doc: "Milliseconds that records are kept when old segments are deleted; -1 is no limit."},
	{Name: "segment.bytes", Type: Int, Default: "1073741824", Min: 1 << 20, Max: topInt,
		BrokerSynonyms: []string{"log.segment.bytes"},
		Doc:            "Size of a segment file, in bytes."},
	{Name: "segment.index.bytes", Type: Int, Default: "10485760", Min: 4, Max: topInt,
		BrokerSynonyms: []string{"log.index.size.max.bytes"},
		Doc:            "Largest size of a segment's offset index, in bytes."},
	{Name: "segment.jitter.ms", Type: Long, Default: "0", Min: 0, Max: topLong,
		BrokerSynonyms: []string{"log.roll.jitter.ms", "log.roll.jitter.hours"},
		Doc:            "Random part taken off segment.ms so that segments do not roll at once."},
	{Name: "segment.ms", Type: Long, Default: "604800000", Min: 1, Max: topLong,
		BrokerSynonyms: []string{"log.roll.ms", "log.roll.hours"},
		Doc:            "Milliseconds after which a segment is closed though not full."},
	{Name: "unclean.leader.election.enable", Type: Boolean, Default: "false",
		BrokerSynonyms: []string{"unclean.leader.election.enable"}, Inert: inertOneNode,
		Doc: "Let a replica that lacks writes lead when no other is left."},
})
