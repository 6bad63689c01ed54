// Package examples holds the smallest runnable things: each folder has a pipeline, a README and a
// test.
package examples
