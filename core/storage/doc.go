// Package storage keeps partitions' logs in Kafka's own files, so that Kafka's tools read them and
// a copied directory works on either side.
//
// # Path
//
// Append: Log.Append (log_append.go) validates by header (log_validate.go), then under the append
// lock assigns offsets, checks the producer (producer_state.go), rolls if due (log_roll.go), writes
// to the active segment (segment.go) and indexes the batch; then the flush policy (log_sync.go).
// Transactions: Log.StartVerification, Append with its guard, a marker with FromTxnCoordinator
// (txn_state.go); what that does to readers is in log_transactions.go.
// Read: Log.Read (log_read.go) finds the segment, segment.find (segment_read.go) cuts a run of
// whole batches, and a Chunk (chunk.go) lends the file. Start: OpenDir (dir_open.go), Log.open
// (log_open.go), segment.recover (segment_recover.go). Upkeep: Dir.Run (dir_run.go) with
// log_retention.go.
//
// # Invariants
//
//	logStart <= lastStable <= highWatermark <= logEnd, filed <= synced <= logEnd
//
// What lies between filed and synced is durable in the journal, and a start writes it into the
// logs' files before it opens them.
//
// A transaction counts as open until its marker is below the high watermark. What makes an offset
// unstable is published before the end of the log moves, and aborted transactions are in their
// index before the marker is below it, so that readers need no lock to see both or neither.
//
// A batch is visible only after all its bytes are in the file. Nothing below the synced offset is
// ever cut by recovery: if it does not read back, the log goes offline with its files untouched.
// Recovery is idempotent. A failed sync fails the whole directory for good, because the kernel may
// have dropped the pages and would report success the next time. A full disk, or no descriptor
// left, only refuses.
// Readers keep a deleted segment's files open until they release them.
//
// Compaction replaces segments (log_clean.go): what stays of them is decided by package compact,
// above this one. The names and steps of log_clean_swap.go make the exchange atomic.
//
// # Goroutines
//
// Dir.Run starts three, the flusher (group commit), housekeeping (retention, checkpoints,
// unlinking) and the scrub (scrub.go), and joins them when its context ends or the directory fails.
// Logs that the journal does not take are synced by at most flushWorkers, joined before the next
// round. OpenDir opens logs in parallel and joins. Log has none.
//
// # Locks
//
// Order: Dir.claim, Log.segmentsToken, groupJournal.token, Log.syncToken, Log.mu, segment.mu,
// Dir.mu, Dir.checkpointToken. The tokens are channels, because they are held over I/O. Log.mu is
// the append lock: offsets, producers, the write into the page cache. Readers take only segment.mu,
// for a lookup in memory. Subscribers are called with no lock held.
//
// # Files
//
// Of the data directory:
//
//	.lock                             held by the owning process, has its pid
//	meta.properties                   cluster, node and directory id
//	.kafka_cleanshutdown              all logs were closed in order; absent while running
//	recovery-point-offset-checkpoint  below it each log's own files are synced, bounds recovery
//	log-start-offset-checkpoint       start offset of each log
//	replication-offset-checkpoint     high watermark of each log
//	cleaner-offset-checkpoint         up to where each log was compacted
//	group-commit-journal              small appends that were synced together (journal.go); absent
//	                                  after a clean shutdown
//	aborted-transactions-checkpoint   segments with a .txnindex, see aborts_list.go; ours alone
//	<topic>-<partition>/              a log
//	<topic>-<p>.<uuid>-delete/        a deleted log, unlinked later
//	<topic>-<p>.<uuid>-stray/         a log nobody knows, kept for the operator
//
// Of a log, with the base offset in 20 digits: .log (batches as on the wire), .index
// (index_offset.go), .timeindex (index_time.go), .txnindex (txn_index.go), .snapshot
// (producer_snapshot.go); and leader-epoch-checkpoint (leader_epochs.go), partition.metadata
// (identity.go).
package storage
