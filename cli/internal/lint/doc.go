// Package lint is the project's style and architecture as Go tests, so that `go test ./...` is the
// one command that tells whether a change fits.
//
// # Files
//
//	imports_test.go   the import law: which folder may import which
//	limits_test.go    lines per file, per function, columns per line
//	banned_test.go    calls that belong behind a port (disk, network, sleeping, printing)
//	docs_test.go      doc.go in every package, comments on exported names, names in notes, goroutines
//	tools_test.go     gofmt, go vet, staticcheck (left out with -short)
//	readme_test.go    command lines in the notes of users are understood by the program
package lint
