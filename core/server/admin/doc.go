// Package admin serves the broker's HTTP endpoints: /healthz, /readyz, /metrics and Go's profiles.
//
// # Path
//
//	GET /healthz  200 while the process serves its purpose at all, 503 once the disk has failed
//	GET /readyz   200 when clients are served, 503 with the reason before, and while draining
//	GET /metrics  Prometheus's text format: what the broker counts, the Go runtime, the process
//	Options.Handlers  what is served beside these: state of pipelines
//	GET /debug/pprof/...  Go's profiles, for clients on this machine only; arguments are not told
//
// What comes to a loopback address under a foreign name is answered 421: host.go tells why.
//
// # Goroutines
//
// Serve runs on its caller's; net/http starts one per connection, which Close joins.
package admin
