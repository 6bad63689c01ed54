// Package metrics holds what the broker counts, cheap enough for the hot paths, and writes it as
// Prometheus's text format.
//
// # Path
//
//	a part counts:   Histogram.Observe, or its own atomic.Int64: no map, no label, no allocation
//	a scrape asks:   each Source writes its families, one after the other, into a Page
//
// A Family is what is known of a metric before it has a value: name, help, labels, and the name
// that Kafka's operators look for. core/METRICS.md is made of them.
//
// # Invariants
//
// All samples of a family are written between its Begin and the next one. A page of any size is
// written through one buffer: 10 000 partitions cost no memory.
//
// # Goroutines, locks
//
// A Histogram may be observed and written by any goroutine. A Page belongs to one.
package metrics
