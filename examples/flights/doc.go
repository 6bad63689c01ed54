// Package flights is an example: real flights through the log, a pipeline written in YAML and an
// operator written in Go, into windowed results. See README.md; the test compares the results with
// an independent calculation from the raw files.
package flights
