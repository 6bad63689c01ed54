// Package plugintest is the acceptance suite of plugins: what passes it is an operator, a
// source or a sink.
//
// # Path
//
// [TestOperator], [TestSource] and [TestSink] take a built binary and prove it from outside,
// through the host and, where the host would hide it, over the bare protocol: handshake and
// Spec, a bad configuration is refused at the right place, answers in order, credits respected,
// records above 4 MiB, Drain within 5 seconds, exit at the end of the lifeline, kill -9 and
// resend. [Run] is for the author's own tests: a part in the test's process, behind the real
// frame codec.
//
// # Invariants
//
// The suite knows nothing of the plugin but what the case tells it.
//
// # Goroutines
//
// One that receives results of the bare protocol, and one that waits for a process whose lifeline
// has ended; both end with the process under test.
//
// # Files
//
// operator.go, source.go, sink.go, process.go (checks all kinds share), run.go and local.go (in
// the test's process).
package plugintest
