package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestFromMinusNShowsNRecords also where the offsets before the end are those of markers and of
// transactions that failed: 3 transactions of 2 records each with a marker, and a failed one of 4
// between the second and the third. Offsets: a0 a1 M b0 b1 M x x x x M c0 c1 M.
func TestFromMinusNShowsNRecords(t *testing.T) {
	c := server(t)
	c.ok("topic", "create", "markers", "-p", "1")
	cl := c.kafka(kgo.TransactionalID("markers"), kgo.DefaultProduceTopic("markers"))
	write := func(commit kgo.TransactionEndTry, values ...string) {
		require.NoError(t, cl.BeginTransaction())
		for _, v := range values {
			require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr())
		}
		require.NoError(t, cl.EndTransaction(t.Context(), commit))
	}
	write(kgo.TryCommit, "a0", "a1")
	write(kgo.TryCommit, "b0", "b1")
	write(kgo.TryAbort, "x", "x", "x", "x")
	write(kgo.TryCommit, "c0", "c1")
	all := []string{"a0", "a1", "b0", "b1", "c0", "c1"}
	for n := 1; n <= 8; n++ {
		out := c.ok("consume", "markers", "--from", fmt.Sprint(-n), "-o", "ndjson")
		want := all[max(0, len(all)-n):]
		require.Equal(t, len(want), strings.Count(out, "\n"), "--from -%d:\n%s", n, out)
		for _, v := range want {
			require.Contains(t, out, `"`+v+`"`, "--from -%d", n)
		}
	}
}
