package metadata

import (
	"math"
	"slices"
)

var logConfigs = slices.Concat([]*ConfigDef{
	setting("log.retention.check.interval.ms", Long, "300000",
		"Time between retention runs.").atLeast(1),
	setting("log.flush.offset.checkpoint.interval.ms", Int, "60000",
		"Time between checkpoints of what is on the disk.").atLeast(0),
	setting("log.flush.start.offset.checkpoint.interval.ms", Int, "60000",
		"Time between checkpoints of start offsets.").atLeast(0),
	setting("replica.high.watermark.checkpoint.interval.ms", Long, "5000",
		"Time between checkpoints of high watermarks."),
	setting("num.recovery.threads.per.data.dir", Int, "2",
		"Logs opened at once at start; unless it is set, as many as there are CPUs.").atLeast(1).dynamic(),
	setting("millstream.partition.producer.ids.max", Int, "100000",
		"Most producer ids that a partition remembers.").atLeast(1),
	setting("millstream.producer.ids.max", Int, "1000000",
		"Most that all partitions remember.").atLeast(1),
	setting("millstream.log.scrub.bytes.per.second", Long, "4194304",
		"How fast sealed segments are read again to find damage; 0: never.").atLeast(0).dynamic(),
	setting("millstream.log.scrub.interval.ms", Long, "604800000",
		"Time between two such readings of a segment.").atLeast(1).dynamic(),
	setting("producer.id.expiration.ms", Int, "86400000",
		"How long an idle producer's state is kept.").atLeast(1).dynamic(),
}, inert("flush.ms of each topic is followed to the millisecond",
	setting("log.flush.scheduler.interval.ms", Long, maxLong,
		"How often logs are looked at for a due flush."),
), inert("a directory that fails ends the broker",
	setting("log.dir.failure.timeout.ms", Long, "30000",
		"Longest time between the failure of a directory and the end of the broker.").atLeast(1),
), inert("there is one directory",
	setting("num.replica.alter.log.dirs.threads", Int, "-", "Threads that move logs."),
	setting("cordoned.log.dirs", List, "",
		"Directories that get no new partitions (KIP-1066).").dynamic(),
))

var cleanerConfigs = []*ConfigDef{
	setting("log.cleaner.enable", Boolean, "true", "Compact topics that ask for it."),
	setting("log.cleaner.threads", Int, "1", "Logs compacted at once.").within(1, 1024).dynamic(),
	setting("log.cleaner.dedupe.buffer.size", Long, "134217728",
		"Memory of compaction, in bytes, shared by its threads.").atLeast(1).dynamic(),
	setting("log.cleaner.io.buffer.size", Int, "524288",
		"Read buffers of compaction, in bytes, shared by its threads.").atLeast(1).dynamic(),
	setting("log.cleaner.io.buffer.load.factor", Double, "0.9",
		"How full the memory of compaction may get.").within(0.01, 1).dynamic(),
	setting("log.cleaner.io.max.bytes.per.second", Double, "1.7976931348623157E308",
		"Most bytes that compaction reads and writes a second.").within(1, math.MaxFloat64).dynamic(),
	setting("log.cleaner.backoff.ms", Long, "15000",
		"Pause of compaction when no log needs it, in milliseconds.").atLeast(0).dynamic(),
}
