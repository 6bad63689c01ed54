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
//   - A source's position is committed in one transaction with its records, and only then is the
//     source told. A record's number is its place in the source, whatever batch it comes in.
//   - A sink connector reads a topic of its own, written exactly as any other output, so that what
//     it sees has a topic, partition and offset that never change. What it has acknowledged is
//     committed shortly after; a dead letter of it is sent once.
//   - Counters go with positions: those of steps are in the commits of their task, those of a
//     source in its position, those of a sink follow from its offsets and its dead letters.
//   - An expression environment belongs to one task; nothing compiled is changed after Prepare.
//   - The topics a plan names are the ones that are made.
//   - A replay writes to shadow topics only, starts no connector and keeps its own state and group.
//   - One part that fails stops the others, each at its last commit. The error says whether trying
//     again may help (deploy.ErrTemporary).
//
// # Goroutines
//
// One per connector source, one per connector sink and one more while the sink waits for records,
// one that runs the worker, one that reports late records; Instance.Run starts and joins them.
// Plugin processes are supervised by package host and closed after the tasks.
//
// # Locks
//
// instance.mu, ingest.mu, output.mu, pluginOperators.mu and Catalog.mu are leaves; Catalog.mu is
// held while a plugin is built, so that it is built once.
//
// # Files
//
//	runner.go references.go       preparing a revision
//	instance.go failure.go        one run, and how it may end
//	catalog.go                    connectors and plugins as the checks see them
//	assemble.go, assemble_*.go    plan -> topology
//	view.go steps.go              expressions over records of a task
//	plugin_step.go processes.go   plugins
//	ingest.go                     connector -> topic
//	output.go output_deliver.go   topic -> connector
//	topics.go                     topics made and looked up
//	replay.go shadow.go           what a replay does differently
//	status.go sampled.go          counters, and lines that would come with every record
package runner
