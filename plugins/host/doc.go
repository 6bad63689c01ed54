// Package host starts plugin processes, keeps them running and talks to them.
//
//	p, err := host.Start(ctx, host.Options{Name: "fraud", Command: host.Command{Path: bin}})
//	op, err := p.Operator(ctx, host.OperatorOptions{Config: config, Task: "0"})
//	res, err := op.Process(ctx, records)
//
// # Path
//
// [Start] launches the process (command.go, process_unix.go, instance.go) and a supervisor that
// starts it again when it ends (plugin.go). [Plugin.Operator] and [Plugin.Sink] make an
// exchange: calls queue up, are sent as credits allow, and are answered in order (exchange.go,
// session.go). When the process ends, the unanswered calls are sent to the next one; a call
// that was the oldest twice is taken apart in a process of its own until the record that does
// it is found (isolate.go). [Plugin.Source] reads records, and after a crash goes on at the
// last position it got (source.go). [Build] compiles a directory (build.go).
//
// # Invariants
//
// Answers are handed out in the order of their calls, exactly one each. A call leaves the queue
// only with an answer, or with the error that ends the stream. What a plugin sends is checked
// before it is used; what breaks the protocol ends the stream with ErrProtocol and the plugin's
// name. No process outlives the host: it is killed by its parent-death signal on Linux, and
// exits at the end of its lifeline pipe anywhere.
//
// # Goroutines
//
// Per process: one locked to an OS thread that starts it and waits for it (the parent-death
// signal is bound to the thread), two that read its output, and go-plugin's; all end with the
// process, which stop waits for. Per Plugin: the supervisor, ended by Close. Per operator, sink
// or source: one that owns its stream, one that receives, one that watches for a hang; all end
// with Close, or with the error that ends the stream.
//
// # Locks
//
// Plugin.mu, exchange.mu, Source.mu and pluginLog.mu are leaves: none is held while another is
// taken, over I/O or a channel operation.
//
// # Files
//
// Sockets lie in a directory of mode 0700, ms-plugin-* under the temporary directory, with a file
// named lock that the host holds locked. Directories whose lock is free belong to a host that was
// killed; the next start removes them.
package host
