package storage

import (
	"errors"
	"fmt"
	"math"
)

// FlushPolicy says when appended bytes are on the disk for sure.
type FlushPolicy string

// The flush policies.
const (
	// FlushAlways syncs inside every Append.
	FlushAlways FlushPolicy = "always"
	// FlushGroup syncs right after an append, one sync for all appends that came meanwhile;
	// SyncedOffset tells when. The default.
	FlushGroup FlushPolicy = "group"
	// FlushOS leaves it to the kernel, with a background sync every 256 MiB and at checkpoints.
	FlushOS FlushPolicy = "os"
)

// Config is the part of a topic's configuration that its logs obey. Names and defaults are Kafka's.
type Config struct {
	SegmentBytes      int64 // segment.bytes: largest .log file
	SegmentMS         int64 // segment.ms: span of record time in one segment
	SegmentIndexBytes int   // segment.index.bytes: largest .index or .timeindex
	// IndexIntervalBytes is index.interval.bytes: log bytes between two index entries.
	IndexIntervalBytes int
	RetentionMS        int64       // retention.ms, -1 = keep
	RetentionBytes     int64       // retention.bytes, -1 = keep
	FileDeleteDelayMS  int64       // file.delete.delay.ms: between .deleted and unlink
	MaxMessageBytes    int         // max.message.bytes: largest batch of a client
	Flush              FlushPolicy // flush, not one of Kafka's: always, group or os
	Compact            bool        // cleanup.policy has compact: keys required
	Delete             bool        // cleanup.policy has delete: retention applies
	LogAppendTime      bool        // message.timestamp.type=LogAppendTime
	// TimestampBeforeMaxMS is message.timestamp.before.max.ms: how old a record may be.
	TimestampBeforeMaxMS int64
	// TimestampAfterMaxMS is message.timestamp.after.max.ms: how far in the future it may be.
	TimestampAfterMaxMS int64
	Compression         Compression // compression.type
	// FlushMessages is flush.messages: with FlushOS, the records after which an append syncs before
	// it returns. 0: never. The other policies sync all of them anyway.
	FlushMessages int64
	// FlushMS is flush.ms: with FlushOS, when an append is synced at the latest. 0: at once;
	// math.MaxInt64 or negative: whenever.
	FlushMS         int64
	Preallocate     bool  // preallocate: reserve the disk space of a segment when it is made
	SegmentJitterMS int64 // segment.jitter.ms: most of what segments take off segment.ms at random
	// SkipVerification is the opposite of transaction.partition.verification.enable: a client's
	// transaction may begin without a VerificationGuard.
	SkipVerification bool
	// DeleteRetentionMS is delete.retention.ms: how long compaction keeps tombstones and markers.
	DeleteRetentionMS int64
	// MinCompactionLagMS is min.compaction.lag.ms: how long a record stays before compaction.
	MinCompactionLagMS int64
	// MaxCompactionLagMS is max.compaction.lag.ms: when compaction is due whatever the ratio is.
	MaxCompactionLagMS int64
	// MinCleanableDirtyRatio is min.cleanable.dirty.ratio: the part of the log that must be dirty.
	MinCleanableDirtyRatio float64
}

// DefaultConfig returns Kafka's defaults and FlushGroup.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:         1 << 30,
		SegmentMS:            7 * 24 * 3600 * 1000,
		SegmentIndexBytes:    10 << 20,
		IndexIntervalBytes:   4096,
		RetentionMS:          7 * 24 * 3600 * 1000,
		RetentionBytes:       -1,
		FileDeleteDelayMS:    60_000,
		MaxMessageBytes:      1048588,
		Flush:                FlushGroup,
		Delete:               true,
		FlushMS:              math.MaxInt64,
		TimestampBeforeMaxMS: math.MaxInt64,
		TimestampAfterMaxMS:  3_600_000,

		DeleteRetentionMS:      24 * 3600 * 1000,
		MaxCompactionLagMS:     math.MaxInt64,
		MinCleanableDirtyRatio: 0.5,
	}
}

// withDefaults takes the zero Config for DefaultConfig. Other zero values stay what they say, since
// retention.ms=0 and the like mean something; only an empty Flush is filled.
func (c Config) withDefaults() Config {
	if c == (Config{}) {
		return DefaultConfig()
	}
	if c.Flush == "" {
		c.Flush = FlushGroup
	}
	return c
}

// rollMS is the longest span of record time in one segment: what must be compacted soon may not
// stay in the active segment, which never is (KIP-354).
func (c *Config) rollMS() int64 {
	if c.Compact && c.MaxCompactionLagMS > 0 {
		return min(c.SegmentMS, c.MaxCompactionLagMS)
	}
	return c.SegmentMS
}

// validate reports all fields that are out of range, joined.
func (c Config) validate() error {
	var errs []error
	check := func(ok bool, name string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: %s=%v", ErrInvalidConfig, name, value))
		}
	}
	check(c.SegmentBytes > 0 && c.SegmentBytes <= math.MaxInt32, "segment.bytes", c.SegmentBytes)
	check(c.SegmentMS > 0, "segment.ms", c.SegmentMS)
	check(c.SegmentJitterMS >= 0, "segment.jitter.ms", c.SegmentJitterMS)
	check(c.FlushMessages >= 0, "flush.messages", c.FlushMessages)
	check(c.SegmentIndexBytes >= timeEntrySize, "segment.index.bytes", c.SegmentIndexBytes)
	check(c.IndexIntervalBytes > 0, "index.interval.bytes", c.IndexIntervalBytes)
	check(c.RetentionMS >= -1, "retention.ms", c.RetentionMS)
	check(c.RetentionBytes >= -1, "retention.bytes", c.RetentionBytes)
	check(c.FileDeleteDelayMS >= 0, "file.delete.delay.ms", c.FileDeleteDelayMS)
	check(c.MaxMessageBytes > 0, "max.message.bytes", c.MaxMessageBytes)
	check(c.TimestampBeforeMaxMS >= 0, "message.timestamp.before.max.ms", c.TimestampBeforeMaxMS)
	check(c.TimestampAfterMaxMS >= 0, "message.timestamp.after.max.ms", c.TimestampAfterMaxMS)
	check(c.DeleteRetentionMS >= 0, "delete.retention.ms", c.DeleteRetentionMS)
	check(c.MinCompactionLagMS >= 0, "min.compaction.lag.ms", c.MinCompactionLagMS)
	check(c.MaxCompactionLagMS >= 0, "max.compaction.lag.ms", c.MaxCompactionLagMS)
	check(c.MinCleanableDirtyRatio >= 0 && c.MinCleanableDirtyRatio <= 1,
		"min.cleanable.dirty.ratio", c.MinCleanableDirtyRatio)
	switch c.Flush {
	case FlushAlways, FlushGroup, FlushOS:
	default:
		check(false, "flush", c.Flush)
	}
	return errors.Join(errs...)
}
