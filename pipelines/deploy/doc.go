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
//	    key NAME@N@ID  revision N as the writer ID proposed it; the first of a number counts
//	__millstream_status     compacted, 1 partition
//	    key NAME         JSON of Status, by the worker that speaks for the pipeline
//	    key NAME@WORKER  JSON of Part, the tasks of one of several workers that share it
//	__millstream_logs       deleted after a day, 1 partition: key NAME, value one JSON log line
//	__millstream_tail       deleted after 10 minutes: what people look at
//	    partition 0  key NAME  JSON of TailRequest, repeated while somebody looks
//	    partition 1  key ID    JSON of TailSample, by each worker that runs tasks of the pipeline
//
// # Invariants
//
//   - Revision numbers of a pipeline rise by one. Of two writers of the same number, the one whose
//     record comes first in the log wins; the other is told of the conflict and changes nothing.
//   - A revision that does not compile, or would lose state, is refused; the running one goes on.
//     One that fails before it has begun gives way to the one that ran before it.
//   - A pipeline that fails keeps its position. It is tried again, with growing waits, where the
//     cause may pass by itself (ErrTemporary).
//   - What several workers share is told by all of them, each its tasks, and added up by whoever
//     reads it (Store.Statuses). The log carries it, not the workers' HTTP: it is where every
//     reader can reach it by the rights it has, and it knows the last words of a worker that died.
//     The counters of a task go with its commits, so of two workers that tell of a task the later
//     one is right, and nothing counts twice.
//   - Pipelines are independent: a revision that cannot be read or takes long to build holds up no
//     other one.
//
// # Goroutines
//
// Reconciler.Run follows the topic, another goroutine requests to look at pipelines, and each of
// those that is being served has one. Each pipeline has a keeper, which carries out its orders one
// after the other, and the goroutine of its running instance. Run joins them all before it
// returns.
//
// # Locks
//
// keeper.mu guards the queue of orders and what others may ask, Reconciler.mu the list of keepers;
// nothing is done under them.
//
// # Files
//
//	revision.go   Revision, Replay, Status
//	store.go      topics: apply, list, history, status
//	tasks.go      TaskStatus, and how tasks add up
//	tail.go       records that pass a node, for people who look
//	parts.go      what several workers say of one pipeline
//	reconcile.go  orders from the topic to keepers
//	keeper.go     one pipeline: wanted against running
//	match.go      topics that patterns of sources find later
//	say.go        how the status and the tasks of a pipeline are published
//	logs.go       a slog handler that writes to the log topic
package deploy
