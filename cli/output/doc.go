// Package output is how every command speaks: data on standard output in the format asked for,
// everything else on standard error, errors with a code, and exit codes that scripts rely on.
//
// # Invariants
//
//   - Standard output carries data only; progress, prompts, notes and errors go to standard error.
//   - List commands print the bare resources; verdict commands (lint, verify, doctor, plan) print
//     one [Verdict] when a machine format is asked for.
//   - Every failure becomes an [Error]; its Exit is the process's exit code.
//
// # Files
//
//	format.go    formats and the Printer
//	table.go     lists and single objects, for people and for machines
//	yaml.go      YAML by way of JSON, keys in the order of the struct
//	error.go     Error, exit codes, rendering
//	progress.go  progress bar on a terminal, a line every ten seconds elsewhere
package output
