// Package command is the command line of millstream: one file per command.
//
// # Path
//
// Main builds the tree, runs the chosen command with a context that Ctrl-C and SIGTERM cancel,
// renders the error it returns and gives its exit code. A command reads its flags, talks to a
// broker over the Kafka protocol (never to storage), and prints through package output.
//
// # Invariants
//
//   - Data goes to standard output, everything else to standard error.
//   - Every leaf command has at least two examples, and each example parses (a test walks the
//     tree).
//   - A flag beats its MILLSTREAM_ variable, which beats .millstream.yaml, which beats the user's
//     config.yaml, which beats the default.
//
// # Goroutines
//
// A node (serving.go) runs the reconciler of pipelines; close stops and joins it. dev adds one that
// watches the files, which alone reloads, and one for each set of result topics that it prints;
// serve joins them. Nothing else outlives the call that started it.
//
// # Files
//
//	main.go        Main, signals, exit codes
//	root.go        the tree, global flags
//	settings.go    where a setting comes from, checked key by key
//	usage.go       mistakes in the command line: nearest command, nearest flag, form and example
//	connection.go  clients of a broker, errors of a broker in users' words
//	outcome.go     what became of each thing a command changed
//	help_errors.go every code of an error, explained
//	complete.go    names a shell may suggest
//	serving.go     the process of dev and server: a broker and a worker
//
// # Tests
//
// Scripts in testdata/cli are run against a broker of their own and compared as a whole; -rewrite
// writes them anew. Tests of pipelines share one server.
package command
