// Package adapter is what the Go adapters share: the loop that reads operations and answers them, and a queue between
// a client that pushes records and a poll that asks for them.
package adapter
