// Package nexmark makes the events of the Nexmark benchmark, and has its queries as pipelines.
//
// # Path
//
// Generator.Event gives event n: a Person, an Auction or a Bid, as JSON, for the topic of its kind.
// The command generate writes them to files or topics; q*.yaml are the queries; the test runs each
// of them and compares with a plain calculation over the same events.
//
// # Invariants
//
// Event n depends on the seed and n alone, so that any part can be made anywhere and again.
//
// # Goroutines
//
// None. A Generator is a value and may be copied.
package nexmark
