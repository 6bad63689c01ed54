// Package operator defines what a step of a stream is: a batch of records in, a batch out.
//
// # Path
//
//	task core -> Operator.Process(ctx, in, out)     once per run, for every step, upstream first
//	             ctx.Fail(rec, class, err)           one record failed: dead letter, drop or stop
//	             ctx.Late(rec, report)               one record came after its window was closed
//	task core <- out, dead letters, late records     merged by (Order, StreamTime)
//
// # Invariants
//
//   - A record is processed at stream time Record.StreamTime; these never decrease in a batch, and
//     Batch.StreamTime is not below any of them. A step that waits for time looks at both and is
//     called with an empty batch when only time moved.
//
//   - Output is ordered by (Order, StreamTime). A step that copies a record keeps both; a step that
//     emits because time reached d stamps Batch.OrderAt(d) and StreamTime d-1, the last instant
//     before d. So the order of the output does not depend on where batches are cut.
//
//   - Bytes of Key, Value and Headers are never written to; they are replaced. Doc may be changed
//     in place unless Record.Shared.
//
//   - Steps over a table (FilterRows, MapRows, Regroup) give, with each row, the one that it takes
//     the place of as they gave it before (Record.Old), so that all behind them can take it back.
//
//   - Punctuations and Timers go by stream time alone. Timers are rows of the step's store; the
//     multiples a punctuation has passed follow from stream time.
//
// # Goroutines
//
// None. Everything but Stats belongs to the goroutine of the task.
package operator
