package storage

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Suffixes of a segment's files. All start with the 20-digit base offset.
const (
	suffixLog       = ".log"
	suffixIndex     = ".index"
	suffixTimeIndex = ".timeindex"
	suffixTxnIndex  = ".txnindex"
	suffixSnapshot  = ".snapshot"
	suffixDeleted   = ".deleted" // appended to a whole name: to be unlinked
	suffixCleaned   = ".cleaned" // appended: made by a compaction that did not finish
	suffixSwap      = ".swap"    // appended: made by a compaction, about to replace others
	suffixTemp      = ".tmp"     // appended: an atomic write that did not finish
)

// Suffixes of partition directories that are no longer partitions.
const (
	suffixDirDelete = "-delete" // deleted topic, unlinked after the delay
	suffixDirStray  = "-stray"  // not wanted by the cluster's metadata; kept for the operator
)

// Files of a partition's directory.
const (
	fileEpochs            = "leader-epoch-checkpoint"
	filePartitionMetadata = "partition.metadata"
)

// Files of a data directory.
const (
	fileLock           = ".lock"
	fileMetaProperties = "meta.properties"
	fileCleanShutdown  = ".kafka_cleanshutdown"
	fileRecoveryPoints = "recovery-point-offset-checkpoint"
	fileStartOffsets   = "log-start-offset-checkpoint"
	fileHighWatermarks = "replication-offset-checkpoint"
	fileCleanedOffsets = "cleaner-offset-checkpoint"
	fileJournal        = "group-commit-journal"
	fileAbortsList     = "aborted-transactions-checkpoint"
)

// segmentFile returns the path of a file of the segment that starts at base.
func segmentFile(dir string, base int64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", base, suffix))
}

// parseSegmentFile splits a name such as 00000000000000000042.log; false if it is none.
func parseSegmentFile(name string) (base int64, suffix string, ok bool) {
	dot := strings.IndexByte(name, '.')
	if dot != 20 {
		return 0, "", false
	}
	base, err := strconv.ParseInt(name[:dot], 10, 64)
	if err != nil || base < 0 {
		return 0, "", false
	}
	return base, name[dot:], true
}
