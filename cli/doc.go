// Package cli holds the binary millstream: its commands, how they print, and the project's own
// lint.
//
// # Path
//
// cli/millstream/main.go calls command.Main. A command talks to a broker over the Kafka protocol
// and prints through package output; dev and server start a broker and a worker in the process
// itself.
//
// # Files
//
//	millstream/        the binary: nothing but command.Main
//	command/           one file per command
//	output/            formats, errors with code, why and do, exit codes, progress
//	internal/ndjson/   the lossless form of records
//	internal/ranges/   the grammar of --from and --to
//	internal/lint/     style and architecture as Go tests
package cli
