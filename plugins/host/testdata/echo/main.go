// Command echo is an operator that only moves each record's time, for benchmarks.
package main

import (
	"time"

	"github.com/millstream-io/millstream/plugins/sdk"
)

func main() {
	sdk.Map("echo", func(_ sdk.Ctx, _ struct{}, r *sdk.Record) error {
		r.SetTimestamp(r.Timestamp().Add(time.Millisecond))
		return nil
	})
}
