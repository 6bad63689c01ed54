// Package eventtime tells the event time of records and how far the time of a partition has come.
//
// # Path
//
//	record -> Extractor -> Clock.Observe(ts) -> eff, the place of the record in the merge
//	          Clock.W()                         the time of the partition
//
// # Invariants
//
//   - W = max ts seen - disorder. It is a function of the prefix of the log alone: no clock is
//     read. Before the first record it is operator.NoTime.
//   - W is exclusive: no on-time record with ts < W follows. A record below W keeps its timestamp
//     and is merged at eff = max(ts, W). Whether it is late is decided where windows close.
package eventtime
