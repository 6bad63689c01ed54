// Package runner is the data plane of pipelines: it binds what a plan says to the streams layer
// and to plugin processes, and runs it.
//
// # Path
//
//	Runner.Prepare   compile the revision, build its plugins (runner.go)
//	Instance.Run     start processes, make topics, assemble the topology, then run together:
//	    ingest       connector -> topic, each record once (ingest.go)
//	    task.Worker  the topology's tasks (assemble.go, steps.go, plugin_step.go)
//	    output       topic -> connector (output.go)
//
// # Invariants
//
//   - A source's position is stored after its records are durable, and only then is the source
//     told.
//   - A sink connector reads a topic of its own, written exactly as any other output, so that what
//     it sees has a topic, partition and offset that never change.
//   - An expression environment belongs to one task; nothing compiled is changed after Prepare.
//   - A replay writes to shadow topics only, starts no connector and keeps its own state and group.
//
// # Goroutines
//
// One per connector source, one per connector sink, one that runs the worker; Instance.Run starts
// and joins them. Plugin processes are supervised by package host and closed after the tasks.
//
// # Files
//
//	runner.go references.go      preparing a revision
//	instance.go                  one run
//	catalog.go                   connectors and plugins as the checks see them
//	assemble.go, …_stateful.go   plan -> topology
//	view.go steps.go             expressions over records of a task
//	plugin_step.go processes.go  plugins
//	ingest.go output.go          connectors
//	topics.go                    topics made and looked up
//	replay.go shadow.go          what a replay does differently
//	status.go                    counters
package runner
