package core

import "github.com/millstream-io/millstream/core/metrics"

// The families of the broker as a whole: what its parts count, and what is read off them.
var (
	partitionLabels = []string{"topic", "partition"}
	groupLabels     = []string{"group", "topic", "partition"}

	famBuild = &metrics.Family{Name: "millstream_build_info",
		Help: "1, with the node's id and the cluster's.", Kind: metrics.Gauge,
		Labels: []string{"node", "cluster"}, Kafka: "kafka.server:app-info"}
	famOpen = &metrics.Family{Name: "millstream_recovery_seconds",
		Help: "How long opening the directory took at the start.", Kind: metrics.Gauge,
		Labels: []string{"directory"}, Kafka: "kafka.log:LogManager,remainingLogsToRecover"}
	famRecovered = &metrics.Family{Name: "millstream_logs_recovered_total",
		Help: "Logs that were read again after an unclean end.", Kind: metrics.Counter,
		Labels: []string{"directory"}}
	famOfflineDirs = &metrics.Family{Name: "millstream_offline_log_directories",
		Help: "Data directories that have failed.", Kind: metrics.Gauge,
		Kafka: "kafka.log:LogManager,OfflineLogDirectoryCount"}
	famDisk = &metrics.Family{Name: "millstream_disk_bytes",
		Help: "Size and free space of the data directory's volume.", Kind: metrics.Gauge,
		Labels: []string{"kind"}}

	famTopics = &metrics.Family{Name: "millstream_topics", Help: "Topics of the cluster.",
		Kind: metrics.Gauge, Kafka: "kafka.controller:KafkaController,GlobalTopicCount"}
	famPartitions = &metrics.Family{Name: "millstream_partitions",
		Help: "Partitions that this node has a replica of.", Kind: metrics.Gauge,
		Kafka: "kafka.server:ReplicaManager,PartitionCount"}
	famLeading = &metrics.Family{Name: "millstream_leader_partitions",
		Help: "Partitions that this node leads.", Kind: metrics.Gauge,
		Kafka: "kafka.server:ReplicaManager,LeaderCount"}
	famOffline = &metrics.Family{Name: "millstream_offline_partitions",
		Help: "Partitions of this node whose log cannot be used.", Kind: metrics.Gauge,
		Kafka: "kafka.controller:KafkaController,OfflinePartitionsCount"}
	famUnderReplicated = &metrics.Family{Name: "millstream_under_replicated_partitions",
		Help: "Led partitions with fewer replicas in sync than assigned.", Kind: metrics.Gauge,
		Kafka: "kafka.server:ReplicaManager,UnderReplicatedPartitions"}
	famUnderMin = &metrics.Family{Name: "millstream_under_min_isr_partitions",
		Help: "Led partitions with fewer replicas in sync than min.insync.replicas.",
		Kind: metrics.Gauge, Kafka: "kafka.server:ReplicaManager,UnderMinIsrPartitionCount"}
	famAtMin = &metrics.Family{Name: "millstream_at_min_isr_partitions",
		Help: "Led partitions of several replicas with just min.insync.replicas in sync.",
		Kind: metrics.Gauge, Kafka: "kafka.server:ReplicaManager,AtMinIsrPartitionCount"}

	famBytesIn = topicFamily("produced_bytes_total", "Bytes of record batches appended by clients.",
		"BytesInPerSec")
	famRecordsIn = topicFamily("produced_records_total", "Records appended by clients.",
		"MessagesInPerSec")
	famBytesOut = topicFamily("fetched_bytes_total", "Bytes of record batches sent to clients.",
		"BytesOutPerSec")
	famProduces = topicFamily("produces_total", "Partitions in produce requests.",
		"TotalProduceRequestsPerSec")
	famFailedProduces = topicFamily("failed_produces_total",
		"Partitions in produce requests that got an error.", "FailedProduceRequestsPerSec")
	famFetches = topicFamily("fetches_total", "Partitions in answers to fetch requests.",
		"TotalFetchRequestsPerSec")
	famFailedFetches = topicFamily("failed_fetches_total",
		"Partitions in answers to fetch requests with an error.", "FailedFetchRequestsPerSec")

	famOmitted = &metrics.Family{Name: "millstream_metrics_omitted",
		Help: "Partitions, or committed offsets, that are not told one by one: there are more than " +
			"metrics.series.max.", Kind: metrics.Gauge, Labels: []string{"kind"}}
	famSize  = partitionFamily("log_size_bytes", "Size of the log.", "kafka.log:Log,Size")
	famStart = partitionFamily("log_start_offset", "First offset that can be read.",
		"kafka.log:Log,LogStartOffset; kafka_topic_partition_oldest_offset")
	famEnd = partitionFamily("log_end_offset", "Offset of the next record.",
		"kafka.log:Log,LogEndOffset")
	famHighWatermark = partitionFamily("high_watermark", "First offset that is not committed.",
		"kafka_topic_partition_current_offset")
	famLastStable = partitionFamily("last_stable_offset",
		"First offset of a transaction that is open, or the high watermark.",
		"kafka.cluster:Partition,LastStableOffsetLag")
	famSegments = partitionFamily("log_segments", "Segments of the log.",
		"kafka.log:Log,NumLogSegments")
	famUncleanable = partitionFamily("cleaner_uncleanable",
		"1 for a partition that compaction skips until a restart; the log says why.",
		"kafka.log:LogCleanerManager,uncleanable-partitions-count")
)

// topicFamily is what is counted for each topic. The sample with an empty topic has all of them,
// deleted ones too.
func topicFamily(name, help, kafka string) *metrics.Family {
	return &metrics.Family{Name: "millstream_" + name, Help: help + " Topic \"\" is the sum of all.",
		Kind: metrics.Counter, Labels: []string{"topic"},
		Kafka: "kafka.server:BrokerTopicMetrics," + kafka}
}

func partitionFamily(name, help, kafka string) *metrics.Family {
	return &metrics.Family{Name: "millstream_" + name, Help: help, Kind: metrics.Gauge,
		Labels: partitionLabels, Kafka: kafka}
}

var (
	famSyncs = &metrics.Family{Name: "millstream_log_sync_seconds",
		Help: "Time of one sync of a log to the disk.", Kind: metrics.Distribution,
		Labels: []string{"directory"}, Kafka: "kafka.log:LogFlushStats,LogFlushRateAndTimeMs"}
	famFlushQueue = &metrics.Family{Name: "millstream_log_flush_queue",
		Help: "Logs that wait for the next round of syncs.", Kind: metrics.Gauge,
		Labels: []string{"directory"}}
	famRolls = &metrics.Family{Name: "millstream_log_segments_rolled_total",
		Help: "New active segments.", Kind: metrics.Counter, Labels: []string{"directory"}}
	famExpired = &metrics.Family{Name: "millstream_log_segments_deleted_total",
		Help: "Segments that went by retention or deleted records.", Kind: metrics.Counter,
		Labels: []string{"directory"}}
	famExpiredBytes = &metrics.Family{Name: "millstream_log_deleted_bytes_total",
		Help: "Bytes of those segments.", Kind: metrics.Counter, Labels: []string{"directory"}}
	famRemovals = &metrics.Family{Name: "millstream_log_removals_pending",
		Help: "Deleted files and directories that still take space.", Kind: metrics.Gauge,
		Labels: []string{"directory"}}
	famDamages = &metrics.Family{Name: "millstream_log_damages_total",
		Help: "Damaged batches and indexes found by reads and by the scrub; the log names them.",
		Kind: metrics.Counter, Labels: []string{"directory"}}
	famScrubbed = &metrics.Family{Name: "millstream_log_scrubbed_bytes_total",
		Help: "Bytes of sealed segments that were read again to find damage.",
		Kind: metrics.Counter, Labels: []string{"directory"}}
	famCheckpointErrors = &metrics.Family{Name: "millstream_checkpoint_errors_total",
		Help: "Checkpoint files that could not be written.", Kind: metrics.Counter,
		Labels: []string{"directory"}}
	famProducers = &metrics.Family{Name: "millstream_producers",
		Help: "Producers that logs remember, each counted in each log.", Kind: metrics.Gauge,
		Kafka: "kafka.server:ReplicaManager,ProducerIdCount"}
	famLimitRefusals = &metrics.Family{Name: "millstream_limit_refusals_total",
		Help: "Requests that would have made something too many, by the config that says so.",
		Kind: metrics.Counter, Labels: []string{"limit"}}

	famCleanerRuns = &metrics.Family{Name: "millstream_cleaner_runs_total",
		Help: "Compactions of a log.", Kind: metrics.Counter}
	famCleanerRead = &metrics.Family{Name: "millstream_cleaner_read_bytes_total",
		Help: "Bytes that compaction has read.", Kind: metrics.Counter,
		Kafka: "kafka.log:LogCleaner,cleaner-recopy-percent"}
	famCleanerBefore = &metrics.Family{Name: "millstream_cleaner_replaced_bytes_total",
		Help: "Bytes of segments that compaction has replaced.", Kind: metrics.Counter}
	famCleanerAfter = &metrics.Family{Name: "millstream_cleaner_kept_bytes_total",
		Help: "Bytes of what has replaced them.", Kind: metrics.Counter}
	famCleanerLast = &metrics.Family{Name: "millstream_cleaner_last_run_timestamp_seconds",
		Help: "When compaction last looked at the logs, seconds since 1970.", Kind: metrics.Gauge,
		Kafka: "kafka.log:LogCleanerManager,time-since-last-run-ms"}
	famCleanerDirty = &metrics.Family{Name: "millstream_cleaner_max_dirty_ratio",
		Help: "Dirty part of the dirtiest log, 0 to 1.", Kind: metrics.Gauge,
		Kafka: "kafka.log:LogCleanerManager,max-dirty-percent"}

	famGroups = &metrics.Family{Name: "millstream_groups", Help: "Groups by type and state.",
		Kind: metrics.Gauge, Labels: []string{"type", "state"},
		Kafka: "kafka.server:group-coordinator-metrics,group-count, consumer-group-count"}
	famMembers = &metrics.Family{Name: "millstream_group_members", Help: "Members of a group.",
		Kind: metrics.Gauge, Labels: []string{"group"}, Kafka: "kafka_consumergroup_members"}
	famEpoch = &metrics.Family{Name: "millstream_group_epoch",
		Help: "Generation or group epoch: it rises with each rebalance.", Kind: metrics.Gauge,
		Labels: []string{"group"},
		Kafka:  "kafka.server:group-coordinator-metrics,group-completed-rebalance-count"}
	famCommitted = &metrics.Family{Name: "millstream_group_committed_offset",
		Help: "Committed offset.", Kind: metrics.Gauge, Labels: groupLabels,
		Kafka: "kafka_consumergroup_current_offset"}
	famLag = &metrics.Family{Name: "millstream_group_lag",
		Help: "Records between the committed offset and the high watermark.", Kind: metrics.Gauge,
		Labels: groupLabels, Kafka: "kafka_consumergroup_lag"}
	famTopicLag = &metrics.Family{Name: "millstream_group_topic_lag",
		Help: "Lag of a group in all partitions of a topic.", Kind: metrics.Gauge,
		Labels: []string{"group", "topic"}, Kafka: "kafka_consumergroup_lag_sum"}
	famCommits = &metrics.Family{Name: "millstream_group_offset_commits_total",
		Help: "Committed offsets.", Kind: metrics.Counter,
		Kafka: "kafka.server:group-coordinator-metrics,offset-commit-count"}
	famExpiredOffsets = &metrics.Family{Name: "millstream_group_offsets_expired_total",
		Help: "Offsets and groups removed since nobody used them.", Kind: metrics.Counter,
		Kafka: "kafka.server:group-coordinator-metrics,offset-expiration-count"}
	famShards = &metrics.Family{Name: "millstream_coordinator_partitions",
		Help: "Partitions of a coordinator's topic by state; silent ones did not answer this page " +
			"in time, and what they know is not in it.",
		Kind: metrics.Gauge, Labels: []string{"coordinator", "state"},
		Kafka: "kafka.server:group-coordinator-metrics,num-partitions"}

	famTransactions = &metrics.Family{Name: "millstream_transactional_ids",
		Help: "Transactional ids by the state of their transaction.", Kind: metrics.Gauge,
		Labels: []string{"state"}}
	famOpenTransactions = &metrics.Family{Name: "millstream_open_transactions",
		Help: "Transactions that are not complete in all their partitions.", Kind: metrics.Gauge,
		Kafka: "kafka.server:ReplicaManager,PartitionsWithLateTransactionsCount"}
	famOldest = &metrics.Family{Name: "millstream_oldest_open_transaction_seconds",
		Help: "Age of the oldest of them, 0 if there is none.", Kind: metrics.Gauge}
	famEnded = &metrics.Family{Name: "millstream_transactions_total",
		Help: "Transactions that ended.", Kind: metrics.Counter, Labels: []string{"result"}}

	famController = &metrics.Family{Name: "millstream_active_controller",
		Help: "1 if this node leads the metadata log.", Kind: metrics.Gauge,
		Kafka: "kafka.controller:KafkaController,ActiveControllerCount"}
	famTerm = &metrics.Family{Name: "millstream_raft_term", Help: "Term of the leader.",
		Kind: metrics.Gauge, Kafka: "kafka.server:raft-metrics,current-epoch"}
	famLastIndex = &metrics.Family{Name: "millstream_raft_last_index",
		Help: "Last entry of the metadata log.", Kind: metrics.Gauge,
		Kafka: "kafka.server:raft-metrics,log-end-offset"}
	famCommitIndex = &metrics.Family{Name: "millstream_raft_commit_index",
		Help: "Last entry that is committed.", Kind: metrics.Gauge,
		Kafka: "kafka.server:raft-metrics,high-watermark"}
	famAppliedIndex = &metrics.Family{Name: "millstream_raft_applied_index",
		Help: "Last entry that the controller has applied.", Kind: metrics.Gauge,
		Kafka: "kafka.controller:KafkaController,LastAppliedRecordOffset"}
	famVersion = &metrics.Family{Name: "millstream_metadata_version",
		Help: "Entry that the metadata in force is of.", Kind: metrics.Gauge,
		Kafka: "kafka.server:broker-metadata-metrics,last-applied-record-offset"}
	famProposals = &metrics.Family{Name: "millstream_raft_proposal_seconds",
		Help: "Time from a change of the metadata to its being applied.",
		Kind: metrics.Distribution, Kafka: "kafka.server:raft-metrics,commit-latency-avg"}
	famElections = &metrics.Family{Name: "millstream_raft_elections_total",
		Help: "Leaders that this node has seen come in.", Kind: metrics.Counter,
		Kafka: "kafka.server:raft-metrics,number-of-leader-changes"}
	famSnapshots = &metrics.Family{Name: "millstream_raft_snapshots_total",
		Help: "Snapshots of the metadata that were written.", Kind: metrics.Counter}
)

// Families implements metrics.Source.
func (c *collector) Families() []*metrics.Family {
	return []*metrics.Family{
		famBuild, famController, famTerm, famLastIndex, famCommitIndex, famAppliedIndex, famVersion,
		famProposals, famElections, famSnapshots,
		famTopics, famPartitions, famLeading, famOffline, famUnderReplicated, famUnderMin, famAtMin,
		famBytesIn, famRecordsIn, famBytesOut, famProduces, famFailedProduces, famFetches,
		famFailedFetches,
		famOpen, famRecovered, famOfflineDirs, famDisk, famSyncs, famFlushQueue, famRolls, famExpired,
		famExpiredBytes, famRemovals, famCheckpointErrors,
		famDamages, famScrubbed,
		famCleanerRuns, famCleanerRead, famCleanerBefore, famCleanerAfter, famCleanerLast,
		famCleanerDirty, famUncleanable,
		famTransactions, famOpenTransactions, famOldest, famEnded,
		famGroups, famCommits, famExpiredOffsets, famShards, famMembers, famEpoch, famTopicLag,
		famCommitted, famLag, famOmitted, famProducers, famLimitRefusals,
		famSize, famStart, famEnd, famHighWatermark, famLastStable, famSegments,
	}
}
