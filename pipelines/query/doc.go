// Package query lets people and programs look at the state of running pipelines: rows of tables,
// windows, sessions and joins, as they were committed.
//
// # Path
//
//	GET /v1/pipelines/NAME/state                 what there is, and how far each task is
//	GET /v1/pipelines/NAME/state/NODE            rows: of a key, or the first ones
//	GET /v1/pipelines/NAME/state/NODE/export     all rows, as NDJSON
//	GET /v1/pipelines/NAME/snapshot              all state, as `pipeline state import` takes it
//	    Handler -> Source.Stores -> ask          here, from the state files (query.go, export.go)
//	    Client                                   asks each worker for the tasks that run there
//
// Parameters: key (JSON, or text), from and to (time of windows or rows: RFC 3339 or ms), partition
// (may be repeated), limit, stale, fresh, max_lag.
//
// Hopping windows on close that only count, or keep sketches, are kept in pieces (panes): their
// rows are those of pieces, each with the span of the piece as its window.
//
// # Invariants
//
//   - Only committed rows are seen, of each partition those of one commit, and the answer says
//     which: changelog and input offsets, and what is behind them.
//   - An answer without a row means that there is none. A partition that cannot be looked at,
//     because it is restored, runs elsewhere or nowhere, is an error or named in the answer; it is
//     never left out.
//   - Rows of a copy, or of a restore that is under way, are given only to who asks for stale ones.
//   - A task is held up by at most viewTime: longer reads work on a copy of the file.
//   - State is the data of users: other machines see it only where the node was told to be open.
//
// # Export
//
// One JSON object a line. Of each partition a position, then its rows; in the end how many there
// were, without which the export is not whole:
//
//	{"type":"position","partition":0,...}      as in Answer.Partitions
//	{"type":"row","partition":0,...}           as in Answer.Rows
//	{"type":"end","rows":2}                    or {"type":"error","error":{...}}
//
// # Goroutines
//
// None. A request runs on the goroutine of its HTTP connection.
package query
