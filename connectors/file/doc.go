// Package file reads records from a file and appends records to one.
//
// # Source
//
// Each line of ndjson or lines, each record of csv, becomes a record: its value is the line, or
// for csv a JSON object named by the header row. Key and event time are for the pipeline to
// find. Origin name and number are the path and the line. With follow the source waits for more
// at the end, through rotation and truncation of the file; without it, it ends there.
//
// A line that cannot be decoded is emitted with error class decode and the headers
// ms-source-file and ms-source-line, its bytes as value. A byte order mark and CR before LF are
// not part of any line.
//
// # Sink
//
// The sink appends exactly the records that were given to it, each once, also when it is killed
// at any moment: see sink_journal.go.
//
// # Invariants
//
// From one position the source reads the same records in the same order, as long as the file only
// grows. Position.Offset is the start of a line, Position.Line the number of lines before it.
//
// # Files
//
// config.go, source.go, source_lines.go, source_csv.go, source_identity.go, sink.go,
// sink_encode.go, sink_journal.go. The sink keeps its journal beside its file, as
// .NAME.journal.
package file
