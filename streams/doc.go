// Package streams describes pipelines in Go: read topics, filter, enrich, aggregate in event time,
// write topics.
//
// # Path
//
//	app := streams.New(streams.Options{App: "orders"})
//	orders := app.Stream("orders", "orders", streams.SourceOptions{})
//	orders.Filter("big", …).KeyBy("by-user", …).Window(streams.Tumbling(time.Minute)).
//		Aggregate("totals", streams.Count("orders")).To("out", "totals")
//	streams.Run(ctx, app, streams.RunOptions{Cluster: cluster, StateDir: dir})
//
// What the methods describe becomes a topology (package topology); its tasks run in a worker
// (package task), each with a core that is a pure function of the records it is given.
//
// # Invariants
//
//   - What comes out depends on the input logs alone: not on the clock, on how work was spread or
//     cut into batches, nor on crashes.
//   - Ids are chosen by the user and name state and internal topics. A renamed step starts with
//     empty state.
//   - Nothing is dropped silently: a record leaves a stream by a filter, to the dead letters, or
//     counted.
//
// # Goroutines
//
// Run starts a worker and joins it. Functions given to steps are called by one goroutine per task,
// several at once: they must not share state.
//
// # Files
//
// Below RunOptions.StateDir: <app>/<sub>-<partition>.db, one state file per task.
package streams
