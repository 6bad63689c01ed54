// Package sdk is what the author of a Millstream plugin imports: an operator is one function and a
// main of one line.
//
//	type Config struct {
//		Threshold float64 `json:"threshold" default:"0.8" min:"0" max:"1" doc:"score to flag above"`
//	}
//
//	func main() {
//		sdk.Map("fraud", func(ctx sdk.Ctx, c Config, r *sdk.Record) error {
//			return r.Set("flagged", r.Get("score").(float64) > c.Threshold)
//		})
//	}
//
// [Map], [Filter], [FlatMap], [Batch], [Source] and [Sink] serve one part and do not return. A
// plugin of several parts builds them with NewMap, NewFilter and so on and calls [Serve].
//
// # Configuration
//
// The fields of the configuration struct are described by tags: json (name), default, required,
// min, max (of the number, the duration, or the length of a string or list), enum (comma
// separated), doc. They make the JSON Schema the host shows and lints with, the defaults, and
// the validation, whose findings carry JSON pointers. A Validate() error method on the struct
// adds rules over several fields; its errors may be made with [At].
//
// # Path
//
// Serve checks the cookie of the host and hands over to go-plugin (serve.go); server.go answers
// Spec and Validate and opens streams; operator.go, source.go and sink.go run one stream each:
// they decode the packed frame, call the author's function for each record and encode what it
// leaves.
//
// # Invariants
//
// Results leave in the order the batches came, one per batch. A *Record is valid until the
// function it was given to returns; Clone keeps it. The functions of one task are never called
// concurrently; those of different tasks are. A panic is not recovered: the process ends, the
// host restarts it, finds the record that does it, and goes on without it.
//
// # Goroutines
//
// Per stream: the handler, which runs the author's code, and a receiver, which ends with the
// stream. Per process: the lifeline reader and the one that waits for SIGTERM (they end the
// process, with all it started, when the host is gone) and the one that lets the handshake
// pass; they live as long as the process.
//
// # Locks
//
// session.sendMu is held over a send, which gRPC wants one at a time; a source's queue has its own,
// for a few fields. Neither is held over the author's code.
//
// # Standard output
//
// In a process started by the host, this package's init moves file descriptor 1 to standard
// error, so that no print, however early, can break the handshake; while go-plugin prints the
// handshake, only that line passes. Everything else printed reaches the host's log at once,
// also before a crash.
//
// # Files
//
// plugin.go, ctx.go, record.go, record_json.go, json_scan.go, config.go, config_schema.go,
// config_check.go, server.go, session.go, operator.go, timed.go, source.go, sink.go, serve.go,
// process_*.go.
package sdk
