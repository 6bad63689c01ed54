package streamstest_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams"
	"github.com/millstream-io/millstream/streams/streamstest"
)

// TestG54_TableGroupsThroughATopic runs the rows of G54 from a topic of two partitions, through
// the repartition topic by group, with batches, commits and crashes at random. The last result of
// each group is what the golden case says.
func TestG54_TableGroupsThroughATopic(t *testing.T) {
	for seed := range uint64(20) {
		b := streams.New(streams.Options{App: "t"})
		region := func(r *streams.Record) ([]byte, error) {
			group, _, _ := strings.Cut(string(r.Value), ",")
			return []byte(group), nil
		}
		size := func(r *streams.Record) (streams.Value, error) {
			_, n, _ := strings.Cut(string(r.Value), ",")
			return streams.Int(int64(n[0] - '0')), nil
		}
		b.Stream("in", "in", streams.SourceOptions{}).
			Changes("people", streams.ChangesOptions{}).
			AggregateTable("total", region, streams.Sum("sum", size), streams.Min("min", size)).
			To("out", "out")
		d, err := streamstest.New(b.Topology(), streamstest.Options{Batch: 3, CrashEvery: 5,
			Partitions: map[string]int32{"in": 2}, Rand: rand.New(rand.NewPCG(seed, 1))})
		require.NoError(t, err)
		for i, line := range []string{"ann=N,3", "bo=S,2", "cat=S,3", "ann=S,3", "cat=", "bo=N,2"} {
			key, value, _ := strings.Cut(line, "=")
			d.Send("in", key, value, int64(i+1))
		}
		d.EndOfInput()
		require.NoError(t, d.Run())
		last := map[string]string{}
		for _, r := range d.Output("out") {
			last[string(r.Key)] = string(r.Value)
		}
		require.Equal(t, map[string]string{"S": `{"sum":3,"min":3}`, "N": `{"sum":2,"min":2}`}, last)
	}
}
