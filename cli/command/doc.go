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
// # Files
//
//	main.go        Main, signals, exit codes
//	root.go        the tree, global flags
//	settings.go    viper: where a setting comes from
//	connection.go  clients of a broker, errors of a broker in users' words
package command
