// Package deploy is the control plane of pipelines: which revisions there are, which one is
// wanted, and how the running ones do. It keeps everything in topics, so a pipeline can be
// deployed onto any cluster that speaks the Kafka protocol.
//
// # Path
//
// [Store.Apply] appends a revision to the topic __millstream_pipelines. A [Reconciler], which runs
// in every worker, follows that topic and makes what runs equal to what is wanted: it starts,
// replaces and stops instances through the [Launcher] port, and appends what it sees to
// __millstream_status. Logs of pipelines go to __millstream_logs.
//
// # Topics
//
//	__millstream_pipelines  compacted, 1 partition
//	    key NAME       the wanted revision (JSON of Revision); tombstone: forget the pipeline
//	    key NAME@N     revision N, kept for history and rollback
//	__millstream_status     compacted, 1 partition: key NAME, value JSON of Status
//	__millstream_logs       deleted after a day, 1 partition: key NAME, value one JSON log line
//
// # Invariants
//
//   - Revision numbers of a pipeline rise by one. Of two writers of the same number, the one whose
//     record comes first in the log wins and the other is told of the conflict.
//   - A revision that does not compile is refused before it is written; the running one goes on.
//   - A worker that cannot start a revision says so in the status and keeps the pipeline's
//     position.
//
// # Goroutines
//
// Reconciler.Run owns one goroutine that follows the topic and one per running instance; it joins
// them before it returns.
//
// # Files
//
//	revision.go   Revision, Replay, Status
//	store.go      topics: apply, list, history, status
//	reconcile.go  wanted against running
//	logs.go       a slog handler that writes to the log topic
package deploy
