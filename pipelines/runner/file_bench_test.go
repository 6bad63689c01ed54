package runner

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/streams/operator"
)

// BenchmarkFileFilterFile is the bar file -> filter -> file: the engine's filter step over batches
// of 1024 events of 195 bytes, read from a file and written to another, without a broker.
// typed=false makes the VM of expr run the condition: trim() of two arguments is not lowered.
func BenchmarkFileFilterFile(b *testing.B) {
	const count = 200_000
	in := filepath.Join(b.TempDir(), "in.ndjson")
	f, err := os.Create(in)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i := range count {
		fmt.Fprintf(w, `{"id":%d,"at":"2026-03-01T12:34:56Z","user":"u-%06d","country":"%s",`+
			`"price":%02d.5,"qty":%02d,"tags":["new","promo"],"to":{"city":"Berlin","zip":"10115"},`+
			`"note":"leave at the door please, thanks a lot"}`+"\n", 100000+i, i*7%1000000,
			[]string{"DE", "FR", "US"}[i%3], 10+i%90, 10+i*3%90)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	for name, source := range map[string]string{
		"typed=true":  `value.price * value.qty > 100 && value.country == "DE"`,
		"typed=false": `value.price * value.qty > 100 && trim(value.country, " ") == "DE"`,
	} {
		b.Run(name, func(b *testing.B) {
			set := expression.NewSet(&expression.Scope{Key: expression.Doc{
				Format: expression.FormatString}})
			program, issues := set.Compile(source, expression.WantBool)
			if program == nil {
				b.Fatal(issues)
			}
			step := filterStep(set, program, time.Now)().(operator.InPlace)
			b.ReportAllocs()
			for b.Loop() {
				if err := filterFile(step, in, in+".out"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(count*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
		})
	}
}

// filterFile takes the lines of a file through a step, chunk by chunk.
func filterFile(step operator.InPlace, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	w := bufio.NewWriterSize(out, 512<<10)
	ctx := operator.NewContext(operator.ContextOptions{Step: "filter"})
	var batch operator.Batch
	source, raw := operator.Input{Topic: "file"}, record.Record{}
	chunk, have := make([]byte, 512<<10), 0
	for {
		n, err := in.Read(chunk[have:])
		if n == 0 {
			if err == io.EOF {
				return w.Flush()
			}
			return err
		}
		have += n
		rest := chunk[:have]
		for {
			batch.Reset()
			rest = takeLines(&batch, rest, &source, &raw)
			if len(batch.Records) == 0 {
				break
			}
			if err := step.ProcessInPlace(ctx, &batch); err != nil {
				return err
			}
			for i := range batch.Records {
				v := batch.Records[i].Value
				if _, err := w.Write(v[:len(v)+1]); err != nil { // with its line end
					return err
				}
			}
		}
		have = copy(chunk, rest)
	}
}

// takeLines makes up to 1024 whole lines the batch and returns what is left.
func takeLines(
	batch *operator.Batch, data []byte, source *operator.Input, raw *record.Record,
) []byte {
	for len(batch.Records) < 1024 {
		n := bytes.IndexByte(data, 10)
		if n < 0 {
			return data
		}
		batch.Records = append(batch.Records, operator.Record{Value: data[:n], Raw: raw, From: source})
		data = data[n+1:]
	}
	return data
}
