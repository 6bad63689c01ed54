package command

import (
	"bufio"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/internal/ndjson"
	"github.com/millstream-io/millstream/cli/output"
)

// recordWriter prints records one by one in the printer's format, so that a scan of any size needs
// no memory.
type recordWriter struct {
	out     *bufio.Writer
	printer *output.Printer
	noValue bool
	line    []byte
	records int64
}

func newRecordWriter(w io.Writer, p *output.Printer, noValue bool) *recordWriter {
	return &recordWriter{out: bufio.NewWriterSize(w, 1<<16), printer: p, noValue: noValue}
}

// begin writes what precedes the first record. Errors of the writer come with the next flush.
func (w *recordWriter) begin() {
	switch {
	case w.printer.Format == output.JSON:
		_ = w.out.WriteByte('[')
	case w.printer.Format == output.Table && !w.printer.NoHeaders:
		fmt.Fprintf(w.out, "%-9s  %-8s  %-24s  %-12s  %s\n",
			"PARTITION", "OFFSET", "TIME", "KEY", "VALUE")
	}
}

func (w *recordWriter) record(r *kgo.Record) error {
	w.line = w.line[:0]
	switch w.printer.Format {
	case output.Table:
		w.line = w.appendRow(w.line, r)
	case output.JSON:
		if w.records > 0 {
			w.line = append(w.line, ',')
		}
		w.line = append(w.line, '\n')
		w.line = ndjson.Append(w.line, r)
		w.line = w.line[:len(w.line)-1]
	case output.YAML:
		item, err := output.YAMLItem(ndjson.Append(nil, r))
		if err != nil {
			return err
		}
		w.line = append(w.line, item...)
	default:
		w.line = ndjson.Append(w.line, r)
	}
	w.records++
	_, err := w.out.Write(w.line)
	return err
}

func (w *recordWriter) appendRow(dst []byte, r *kgo.Record) []byte {
	value := readable(r.Value)
	if w.noValue {
		value = fmt.Sprintf("(%d bytes)", len(r.Value))
	}
	return fmt.Appendf(dst, "%-9d  %-8d  %-24s  %-12s  %s\n", r.Partition, r.Offset,
		r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z"), readable(r.Key), value)
}

func (w *recordWriter) flush() error { return w.out.Flush() }

// end closes the list of records.
func (w *recordWriter) end() error {
	switch {
	case w.printer.Format == output.JSON && w.records > 0:
		_, _ = w.out.WriteString("\n]\n")
	case w.printer.Format == output.JSON:
		_, _ = w.out.WriteString("]\n")
	case w.printer.Format == output.YAML && w.records == 0:
		_, _ = w.out.WriteString("[]\n")
	}
	return w.out.Flush() // a bufio.Writer keeps its first error
}
